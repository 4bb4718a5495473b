// I4: a deposed brain writes nothing and lets nothing run.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { type CallEnded, type CallHistory, callsOf } from "../calls.ts";
import { type Observed, type ObservedMessage, startMarks } from "../observed.ts";
import type { Violation } from "../violation.ts";

type Brain = EventOf<"TurnStarted" | "TurnTakenOver">;

/** I4: epochs rise by one, every call is of the newest, and every brain wrote on top of all that was there. */
export function epochsIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
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
export function effectsAfterEnd(observed: Observed, calls: readonly CallHistory[]): Violation[] {
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
