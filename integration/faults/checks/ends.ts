// How calls ended.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { type CallEnded, type CallHistory, isExitedWell } from "../calls.ts";
import type { ObservedMessage } from "../observed.ts";
import type { Violation } from "../violation.ts";

/** I3: each call that was asked for has one end, and each start came once. */
export function endsOf(calls: readonly CallHistory[]): Violation[] {
  return calls.flatMap(({ callId, session, starts, ends }): Violation[] => {
    const many: Violation[] =
      starts > 1 ? [{ of: "I3", session, text: `Call ${callId} was started ${starts} times` }] : [];
    if (ends.length === 1) return many;
    const names = ends.map(({ type }) => type).join(", ") || "none";
    return [...many, { of: "I3", session, text: `Call ${callId} has ${ends.length} ends: ${names}` }];
  });
}

/** I5: a command that leaves marks cannot fail by itself, and only a person stops it. */
export function endsOfTheirOwn(messages: readonly ObservedMessage[], calls: readonly CallHistory[]): Violation[] {
  return calls.flatMap((call): Violation[] => {
    const { session, callId, tool, markId, ends } = call;
    const [end] = ends;
    if (tool !== "bash" || markId === undefined || end?.type !== "ToolDone") return [];
    const { outcome } = end.data;
    if (outcome.status === "background" || isExitedWell(outcome)) return [];
    if (outcome.status === "stopped" && wasToStop(messages, session, end)) return [];
    return [{ of: "I5", session, text: `Call ${callId} ended by nobody's doing as ${JSON.stringify(outcome)}` }];
  });
}

function wasToStop(messages: readonly ObservedMessage[], session: string, end: CallEnded): boolean {
  return messages.some(
    (message) =>
      message.session === session &&
      message.storedAtMs <= end.storedAtMs &&
      message.events.some((event) => isStop(event, end.data.turnId)),
  );
}

function isStop(event: PistisEvent, turnId: string): boolean {
  if (event.type === "InterruptRequested") return event.data.turnId === turnId;
  return event.type === "SessionEndRequested";
}

/** What a brain writes only when it does what its code holds to be impossible. */
const OWN_FAULTS = new Set(["internal", "calls_open", "call_not_started", "turn_vanished", "file_call_outcome"]);

export function faultsOfBrains(messages: readonly ObservedMessage[]): Violation[] {
  return messages.flatMap(({ session, events }) =>
    events.flatMap((event): Violation[] => {
      const code = failureCodeIn(event);
      if (code === undefined || !OWN_FAULTS.has(code)) return [];
      return [{ of: "rest", session, text: `${event.type} tells of ${code}: ${JSON.stringify(event.data)}` }];
    }),
  );
}

function failureCodeIn(event: PistisEvent): string | undefined {
  switch (event.type) {
    case "ToolDone":
      return event.data.outcome.status === "failed" ? event.data.outcome.failure.code : undefined;
    case "ToolOutcomeUnknown":
      return event.data.reason;
    case "TurnEnded":
      return event.data.failure?.code;
    default:
      return undefined;
  }
}
