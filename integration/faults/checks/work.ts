// Whether there was anything to judge, and whether it goes on after all of it.
import { type CallHistory, isExitedWell } from "../calls.ts";
import { endMarks, type LastTurn, type Observed, type ObservedMessage, startMarks } from "../observed.ts";
import type { Violation } from "../violation.ts";

/** When all faults are over, what a session is told to do really happens. */
export function notGoneOn({ messages, marks, lastTurns }: Observed, calls: readonly CallHistory[]): Violation[] {
  const begun = startMarks(marks);
  const ended = endMarks(marks);
  const hasRun = ({ markId = "", ends: [end] }: CallHistory) =>
    end?.type === "ToolDone" && isExitedWell(end.data.outcome) && begun.has(markId) && ended.has(markId);
  return lastTurns.flatMap((turn): Violation[] => {
    const own = callsOfTurn(messages, calls, turn);
    if (own.some(hasRun)) return [];
    const ends = own.flatMap((call) => call.ends.map(({ type, data }) => `${type} ${JSON.stringify(data)}`));
    const text = `Its last command did not run to its end: ${ends.join(", ") || "it has no end"}`;
    return [{ of: "rest", session: turn.session, text }];
  });
}

/** The commands of the turn that was given the message. */
function callsOfTurn(
  messages: readonly ObservedMessage[],
  calls: readonly CallHistory[],
  { session, messageId, markId }: LastTurn,
): CallHistory[] {
  const given = messages
    .flatMap(({ events }) => [...events])
    .flatMap((event) => (event.type === "TurnStarted" || event.type === "MessagesDelivered" ? [event.data] : []))
    .find(({ messageIds }) => messageIds.includes(messageId));
  return calls.filter((call) => {
    if (call.session !== session || call.turnId !== given?.turnId || call.markId === undefined) return false;
    return markId === undefined || call.markId === markId;
  });
}
