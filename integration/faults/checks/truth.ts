// I5: what the model is told is what the disk says.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { CallEnded, CallHistory } from "../calls.ts";
import { contentOf, type Observed, startMarks } from "../observed.ts";
import type { Violation } from "../violation.ts";

type Traces = Readonly<{
  hasBegun: boolean;
  hasEnded: boolean;
  /** The sandbox was restarted or gone after the call was started, and every process in it with it. */
  wasCut: boolean;
  /** Its disk was deleted, so what is missing says nothing. What is there says the same as ever. */
  isGone: boolean;
}>;

/** I5: what the model is told is what the disk says. */
export function untruths(
  { messages, marks, files, withoutDisk }: Observed,
  calls: readonly CallHistory[],
): Violation[] {
  const begun = startMarks(marks);
  const ended = new Set(marks.flatMap(({ kind, id }) => (kind === "end" ? [id] : [])));
  const written = new Set(files.map(({ id }) => id));
  const cuts = messages.filter(({ events }) => events.some(endsProcesses));
  const halves = files
    .filter(({ id, content }) => content !== contentOf(id))
    .map(({ session, id }): Violation => ({ of: "I5", session, text: `File ${id} has not the content that was sent` }));
  const untold = calls.flatMap((call): Violation[] => {
    const { session, markId, callId, ends } = call;
    const [end] = ends;
    if (markId === undefined || end === undefined) return [];
    const isFile = call.tool === "write";
    const hasBegun = isFile ? written.has(markId) : begun.has(markId);
    const hasEnded = isFile ? hasBegun : ended.has(markId);
    const wasCut = cuts.some((cut) => cut.session === session && cut.storedAtMs > (call.started?.storedAtMs ?? 0));
    const isGone = withoutDisk.has(session);
    return untruthsOf(call, end, { hasBegun, hasEnded, wasCut, isGone }).map((text) => ({
      of: "I5",
      session,
      text: `Call ${callId}: ${text}`,
    }));
  });
  return [...halves, ...untold];
}

function untruthsOf(call: CallHistory, end: CallEnded, traces: Traces): string[] {
  switch (end.type) {
    case "ToolNotRun":
    case "ToolRefused":
      return traces.hasBegun ? [`its end is ${end.type}, and it left its mark`] : [];
    case "ToolOutcomeUnknown":
      return /may have partly or fully run/.test(end.data.text) ? [] : [`it is told as unknown by "${end.data.text}"`];
    case "ToolDone":
      return untruthsOfDone(call, end.data, traces);
  }
}

function untruthsOfDone(
  { tool, output }: CallHistory,
  { outcome, text }: EventOf<"ToolDone">["data"],
  { hasBegun, hasEnded, wasCut, isGone }: Traces,
): string[] {
  const isMissing = (there: boolean) => !there && !isGone;
  if (tool === "write") {
    return outcome.status === "ok" && isMissing(hasEnded) ? ["it is told as done, and nothing is there"] : [];
  }
  // A shell that was ended in its first moment was running, and had not come to its mark.
  if (outcome.status === "background") {
    return isMissing(hasBegun) && !wasCut ? ["it is told as running, and it never began"] : [];
  }
  if (outcome.status !== "exited" || outcome.exitCode !== 0) return [];
  const marks = isMissing(hasBegun && hasEnded) ? ["it is told as done, and its marks are not there"] : [];
  return [...marks, ...(isWholeAndOnce(text, output) ? [] : ["its output is not what it wrote, whole and once"])];
}

/** The brain's own note follows the last byte. */
function isWholeAndOnce(text: string, output: string): boolean {
  return text.startsWith(`${output}${output.endsWith("\n") ? "" : "\n"}[Exit code 0.`);
}

function endsProcesses({ type }: PistisEvent): boolean {
  return type === "SandboxJoined" || type === "SandboxMissing";
}
