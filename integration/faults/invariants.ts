// The invariants I1 to I8 as checks of what a run left behind: the ledger's messages and the marks on the sandboxes'
// disks. Pure, and none of it shares code with what it checks.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { type CallEnded, type CallHistory, callsOf } from "./calls.ts";
import { contentOf, type Mark, type Observed, type ObservedMessage, outputOf } from "./observed.ts";

export const INVARIANTS = ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"] as const;
export type Invariant = (typeof INVARIANTS)[number];

export type Violation = Readonly<{ of: Invariant | "delivery"; session: string; text: string }>;

/** Everything that does not hold. To be asked when all is quiet: a call that still runs has no end yet. */
export function violationsIn(observed: Observed): Violation[] {
  const calls = callsOf(observed.messages);
  const bySession = Map.groupBy(observed.messages, ({ session }) => session);
  const ordered = [...bySession].flatMap(([session, messages]) => [
    ...epochsIn(session, messages),
    ...repliesIn(session, messages),
    ...sandboxesIn(session, messages),
    ...deliveriesIn(session, messages),
  ]);
  return [
    ...marksWithoutStart(observed, calls),
    ...marksTwice(observed, calls),
    ...endsOf(calls),
    ...effectsAfterEnd(observed, calls),
    ...untruths(observed, calls),
    ...ordered,
    ...lostMessages(observed),
  ];
}

/** I1: whatever ran was in the ledger before. */
function marksWithoutStart({ marks }: Observed, calls: readonly CallHistory[]): Violation[] {
  // A step that was started again is found by I2; its mark belongs to the first start.
  const started = new Map(
    calls.toReversed().flatMap((call) => (call.started && call.markId ? [[call.markId, call.started]] : [])),
  );
  return marks
    .filter(({ kind }) => kind === "start")
    .flatMap(({ session, id, atMs }): Violation[] => {
      const start = started.get(id);
      if (start === undefined) return [{ of: "I1", session, text: `Mark ${id} has no ToolStarted` }];
      if (start.storedAtMs <= atMs) return [];
      const lateMs = (start.storedAtMs - atMs).toFixed(3);
      return [{ of: "I1", session, text: `Mark ${id} is ${lateMs} ms older than its ToolStarted` }];
    });
}

/** I2: no call left its mark twice, and nothing was asked for in two calls. */
function marksTwice({ marks }: Observed, calls: readonly CallHistory[]): Violation[] {
  const lines = Map.groupBy(marks, ({ id, kind }) => `${kind} ${id}`);
  const twice = [...lines].flatMap(([line, [mark, ...more]]): Violation[] =>
    mark === undefined || more.length === 0
      ? []
      : [{ of: "I2", session: mark.session, text: `Mark "${line}" is there ${more.length + 1} times` }],
  );
  const started = Map.groupBy(
    calls.filter((call) => call.started !== undefined && call.markId !== undefined),
    ({ markId }) => markId,
  );
  const again = [...started.values()].flatMap(([call, ...more]): Violation[] =>
    call === undefined || more.length === 0
      ? []
      : [{ of: "I2", session: call.session, text: `Step ${call.markId} was started in ${more.length + 1} calls` }],
  );
  return [...twice, ...again];
}

/** I3: each call that was asked for has one end, and each start came once. */
function endsOf(calls: readonly CallHistory[]): Violation[] {
  return calls.flatMap(({ callId, session, starts, ends }): Violation[] => {
    const many: Violation[] =
      starts > 1 ? [{ of: "I3", session, text: `Call ${callId} was started ${starts} times` }] : [];
    if (ends.length === 1) return many;
    const names = ends.map(({ type }) => type).join(", ") || "none";
    return [...many, { of: "I3", session, text: `Call ${callId} has ${ends.length} ends: ${names}` }];
  });
}

type Brain = EventOf<"TurnStarted" | "TurnTakenOver">;

/** I4: epochs rise by one, every call is of the newest, and every brain wrote on top of all that was there. */
function epochsIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  const violations: Violation[] = [];
  const add = (text: string) => violations.push({ of: "I4", session, text });
  let epoch = 0;
  let before: ObservedMessage | undefined;
  for (const message of messages) {
    if (message.writer === "brain" && message.causationId !== (before?.id ?? null)) {
      add(`${message.sequence} was decided on ${message.causationId}, not on what was there before it`);
    }
    for (const event of message.events) {
      if (event.type === "ToolStarted" && event.data.epoch !== epoch) {
        add(`${event.data.callId} was started under epoch ${event.data.epoch} in epoch ${epoch}`);
      }
      if (!isOwnership(event)) continue;
      if (event.data.epoch !== epoch + 1) add(`${event.type} raised epoch ${epoch} to ${event.data.epoch}`);
      epoch = event.data.epoch;
    }
    before = message;
  }
  return violations;
}

function isOwnership(event: PistisEvent): event is Brain {
  return event.type === "TurnStarted" || event.type === "TurnTakenOver";
}

/** I4: what was given up by a brain does not begin later on behalf of the one before. */
function effectsAfterEnd(observed: Observed, calls: readonly CallHistory[]): Violation[] {
  return lateStarts(observed, calls).flatMap(({ call: { session, callId }, end, lateMs }): Violation[] => {
    if (isUnanswered(end)) return [];
    const reason = "reason" in end.data ? ` (${end.data.reason})` : "";
    return [{ of: "I4", session, text: `Call ${callId} began ${lateMs} ms after its ${end.type}${reason}` }];
  });
}

/**
 * Calls that began after their outcome was told as unknown because the sandbox did not answer in time, to the call or to
 * Stop: the request was on its way, and nobody could call it back. What is told allows it, so it is counted and is no
 * violation.
 */
export function countLateStarts(observed: Observed): number {
  return lateStarts(observed, callsOf(observed.messages)).filter(({ end }) => isUnanswered(end)).length;
}

const UNANSWERED = new Set(["sandbox_unreachable", "stop_unconfirmed"]);

function isUnanswered(end: CallEnded): boolean {
  return end.type === "ToolOutcomeUnknown" && UNANSWERED.has(end.data.reason);
}

type LateStart = Readonly<{ call: CallHistory; end: CallEnded; lateMs: number }>;

function lateStarts({ marks }: Observed, calls: readonly CallHistory[]): LateStart[] {
  const begun = startMarks(marks);
  return calls.flatMap((call): LateStart[] => {
    const [end] = call.ends;
    const mark = call.markId === undefined ? undefined : begun.get(call.markId);
    if (mark === undefined || end === undefined || mark.atMs <= end.storedAtMs) return [];
    if (end.type === "ToolDone" && end.data.outcome.status === "background") return [];
    return [{ call, end, lateMs: Math.round(mark.atMs - end.storedAtMs) }];
  });
}

/** `wasCut`: the sandbox was restarted or gone after the call was started, and every process in it with it. */
type Traces = Readonly<{ hasBegun: boolean; hasEnded: boolean; wasCut: boolean }>;

/** I5: what the model is told is what the disk says. */
function untruths({ messages, marks, files, withoutDisk }: Observed, calls: readonly CallHistory[]): Violation[] {
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
    if (markId === undefined || end === undefined || withoutDisk.has(session)) return [];
    const isFile = call.tool === "write";
    const hasBegun = isFile ? written.has(markId) : begun.has(markId);
    const hasEnded = isFile ? hasBegun : ended.has(markId);
    const wasCut = cuts.some((cut) => cut.session === session && cut.storedAtMs > (call.started?.storedAtMs ?? 0));
    return untruthsOf(call, end, { hasBegun, hasEnded, wasCut }).map((text) => ({
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
  { tool, markId }: CallHistory,
  { outcome, text }: EventOf<"ToolDone">["data"],
  { hasBegun, hasEnded, wasCut }: Traces,
): string[] {
  if (tool === "write") return outcome.status === "ok" && !hasEnded ? ["it is told as done, and nothing is there"] : [];
  // A shell that was ended in its first moment was running, and had not come to its mark.
  if (outcome.status === "background") return hasBegun || wasCut ? [] : ["it is told as running, and it never began"];
  if (outcome.status !== "exited" || outcome.exitCode !== 0) return [];
  const marks = hasBegun && hasEnded ? [] : ["it is told as done, and its marks are not there"];
  const output = text.startsWith(outputOf(markId ?? "")) ? [] : ["its output is not what it wrote, whole and once"];
  return [...marks, ...output];
}

function endsProcesses({ type }: PistisEvent): boolean {
  return type === "SandboxJoined" || type === "SandboxMissing";
}

function startMarks(marks: readonly Mark[]): Map<string, Mark> {
  return new Map(marks.filter(({ kind }) => kind === "start").map((mark) => [mark.id, mark]));
}

/** I6: the model is never asked while a call of an earlier reply has no result. */
function repliesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  const open = new Set<string>();
  return events(messages).flatMap((event): Violation[] => {
    const wasOpen = [...open];
    if (event.type === "ToolDone" || event.type === "ToolOutcomeUnknown") open.delete(event.data.callId);
    if (event.type === "ToolNotRun" || event.type === "ToolRefused") open.delete(event.data.callId);
    if (event.type !== "ModelReplied" && event.type !== "MessagesDelivered" && event.type !== "TurnEnded") return [];
    if (event.type === "ModelReplied") {
      for (const part of event.data.content) if (part.type === "tool-call") open.add(part.callId);
    }
    return wasOpen.map((callId) => ({ of: "I6", session, text: `${event.type} came while ${callId} was open` }));
  });
}

/** I7 and I8: nothing takes a sandbox away from an open turn, and none is replaced that is not gone. */
function sandboxesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  let turnIsOpen = false;
  let endRequested = false;
  const gone = new Set<number>();
  return events(messages).flatMap((event): Violation[] => {
    if (event.type === "TurnStarted") turnIsOpen = true;
    if (event.type === "TurnEnded") turnIsOpen = false;
    if (event.type === "SessionEndRequested") endRequested = true;
    if (event.type === "SandboxMissing") gone.add(event.data.generation);
    if (event.type === "SandboxDeleteRequested" && turnIsOpen && !endRequested) {
      return [{ of: "I7", session, text: `The sandbox's deletion was asked for in an open turn` }];
    }
    if (event.type !== "SandboxCreateRequested") return [];
    const { generation } = event.data;
    if (generation === 1 || gone.has(generation - 1)) return [];
    return [{ of: "I8", session, text: `Generation ${generation} was asked for, and the one before is not gone` }];
  });
}

/** Each message that was posted reached the model once, or was left by a session that ended. */
function deliveriesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  const times = new Map<string, number>();
  let isOver = false;
  for (const event of events(messages)) {
    if (event.type === "MessagePosted") times.set(event.data.messageId, times.get(event.data.messageId) ?? 0);
    if (event.type === "SessionEndRequested") isOver = true;
    if (event.type !== "TurnStarted" && event.type !== "MessagesDelivered") continue;
    for (const id of event.data.messageIds) times.set(id, (times.get(id) ?? 0) + 1);
  }
  return [...times].flatMap(([messageId, count]): Violation[] => {
    if (count === 1 || (count === 0 && isOver)) return [];
    return [{ of: "delivery", session, text: `Message ${messageId} was given to the model ${count} times` }];
  });
}

/** What the gateway said is stored is in the ledger, once. */
function lostMessages({ messages, accepted }: Observed): Violation[] {
  const posted = events(messages).flatMap((event) => (event.type === "MessagePosted" ? [event.data.messageId] : []));
  const times = Map.groupBy(posted, (messageId) => messageId);
  return accepted.flatMap(({ session, messageId }): Violation[] => {
    const count = times.get(messageId)?.length ?? 0;
    if (count === 1) return [];
    return [{ of: "delivery", session, text: `Message ${messageId} was accepted and is in the ledger ${count} times` }];
  });
}

function events(messages: readonly ObservedMessage[]): PistisEvent[] {
  return messages.flatMap((message) => [...message.events]);
}
