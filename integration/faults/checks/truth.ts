// I5: what the model is told is what the disk says.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { type CallEnded, type CallHistory, isExitedWell } from "../calls.ts";
import { contentOf, endMarks, type Observed, type ObservedMessage, startMarks } from "../observed.ts";
import type { Violation } from "../violation.ts";

type Traces = Readonly<{
  startedAtMs: number | undefined;
  endedAtMs: number | undefined;
  /** Every process in its sandbox may have ended before the call came to its mark. */
  wasCut: boolean;
  /** Its disk was deleted, so what is missing says nothing. What is there says the same as ever. */
  isGone: boolean;
}>;

/** A shell that was told as running has come to its first line within this time, or another one would not have either. */
const BEGUN_MS_MAX = 500;

export function untruths(observed: Observed, calls: readonly CallHistory[]): Violation[] {
  const tracesOf = openTraces(observed, calls);
  const halves = observed.files
    .filter(({ id, content }) => content !== contentOf(id))
    .map(({ session, id }): Violation => ({ of: "I5", session, text: `File ${id} has not the content that was sent` }));
  const untold = calls.flatMap((call): Violation[] => {
    const { session, markId, callId, ends } = call;
    const [end] = ends;
    if (markId === undefined || end === undefined) return [];
    const texts = untruthsOf(call, end, tracesOf(call, end, markId));
    return texts.map((text) => ({ of: "I5", session, text: `Call ${callId}: ${text}` }));
  });
  return [...halves, ...untold, ...restartsOfNothing(observed.messages, calls)];
}

function openTraces({ messages, marks, files, withoutDisk }: Observed, calls: readonly CallHistory[]) {
  const begun = startMarks(marks);
  const ended = endMarks(marks);
  const written = new Set(files.map(({ id }) => id));
  const cuts = Map.groupBy(messages.filter(hasCut), ({ session }) => session);
  return (call: CallHistory, end: CallEnded, markId: string): Traces => {
    const { session, tool, started } = call;
    const isGone = withoutDisk.has(session);
    if (tool === "write") {
      const atMs = written.has(markId) ? end.storedAtMs : undefined;
      return { startedAtMs: atMs, endedAtMs: atMs, wasCut: false, isGone };
    }
    const cut = cuts.get(session)?.find(({ storedAtMs }) => storedAtMs > (started?.storedAtMs ?? 0));
    const wasCut = cut !== undefined && !livedOn(calls, { session, end, cutAtMs: cut.storedAtMs });
    return { startedAtMs: begun.get(markId)?.atMs, endedAtMs: ended.get(markId)?.atMs, wasCut, isGone };
  };
}

/** Between this end and the cut a later command of the sandbox ran from its first to its last line. */
function livedOn(
  calls: readonly CallHistory[],
  { session, end, cutAtMs }: { session: string; end: CallEnded; cutAtMs: number },
): boolean {
  return calls.some((other) => {
    const [otherEnd] = other.ends;
    if (other.session !== session || otherEnd?.type !== "ToolDone" || !isExitedWell(otherEnd.data.outcome))
      return false;
    const startedAtMs = other.started?.storedAtMs ?? 0;
    return startedAtMs > end.storedAtMs + BEGUN_MS_MAX && otherEnd.storedAtMs < cutAtMs;
  });
}

/** The model is told of a restart only when there was one: no call is given up for a sandbox that is as it was. */
function restartsOfNothing(messages: readonly ObservedMessage[], calls: readonly CallHistory[]): Violation[] {
  const cuts = Map.groupBy(messages.filter(hasCut), ({ session }) => session);
  return calls.flatMap(({ session, callId, started, ends: [end] }): Violation[] => {
    if (end?.type !== "ToolOutcomeUnknown" || end.data.reason !== "sandbox_restarted") return [];
    const own = cuts.get(session) ?? [];
    if (own.some(({ storedAtMs }) => storedAtMs > (started?.storedAtMs ?? 0))) return [];
    return [{ of: "I5", session, text: `Call ${callId}: its sandbox is told as restarted, and never was` }];
  });
}

function hasCut({ events }: ObservedMessage): boolean {
  return events.some(endsProcesses);
}

function untruthsOf(call: CallHistory, end: CallEnded, traces: Traces): string[] {
  switch (end.type) {
    case "ToolNotRun":
    case "ToolRefused":
      return traces.startedAtMs !== undefined ? [`its end is ${end.type}, and it left its mark`] : [];
    case "ToolOutcomeUnknown":
      return /may have partly or fully run/.test(end.data.text) ? [] : [`it is told as unknown by "${end.data.text}"`];
    case "ToolDone":
      return [...untruthsOfDone(call, end.data, traces), ...goingOn(end, traces)];
  }
}

function untruthsOfDone(
  { tool, output }: CallHistory,
  { outcome, text }: EventOf<"ToolDone">["data"],
  { startedAtMs, endedAtMs, wasCut, isGone }: Traces,
): string[] {
  const isMissing = (atMs: number | undefined) => atMs === undefined && !isGone;
  if (tool === "write") {
    return outcome.status === "ok" && isMissing(endedAtMs) ? ["it is told as done, and nothing is there"] : [];
  }
  // A shell that was ended in its first moment was running, and had not come to its mark.
  if (outcome.status === "background") {
    return isMissing(startedAtMs) && !wasCut ? ["it is told as running, and it never began"] : [];
  }
  if (!isExitedWell(outcome)) return [];
  const isUnmarked = isMissing(startedAtMs) || isMissing(endedAtMs);
  const marks = isUnmarked ? ["it is told as done, and its marks are not there"] : [];
  return [...marks, ...(isWholeAndOnce(text, output) ? [] : ["its output is not what it wrote, whole and once"])];
}

/** The brain's own note follows the last byte. */
function isWholeAndOnce(text: string, output: string): boolean {
  return text.startsWith(`${output}${output.endsWith("\n") ? "" : "\n"}[Exit code 0.`);
}

/** What is told as over does not go on: a Stop that stops nothing would leave the command running. */
function goingOn(end: Extract<CallEnded, { type: "ToolDone" }>, { endedAtMs }: Traces): string[] {
  const { status } = end.data.outcome;
  if (status === "background" || endedAtMs === undefined || endedAtMs <= end.storedAtMs) return [];
  return [`it is told as ${status}, and went on for ${Math.round(endedAtMs - end.storedAtMs)} ms`];
}

function endsProcesses({ type }: PistisEvent): boolean {
  // After a deletion was asked for no join is recorded any more.
  return ["SandboxJoined", "SandboxStopped", "SandboxMissing", "SandboxDeleteRequested"].includes(type);
}
