// Whether there was anything to judge, and whether it goes on after all of it.
import { type CallHistory, isExitedWell } from "../calls.ts";
import { endMarks, eventsOf, type LastTurn, type Observed, type ObservedMessage, startMarks } from "../observed.ts";
import type { Violation } from "../violation.ts";

export type Work = Readonly<{
  /** Sessions that were to live through the run, and those that did. */
  lastingWanted: number;
  lasting: readonly string[];
  mortal: readonly string[];
  faults: number;
}>;

/** A history is made shorter after so many faults at the latest. */
const FAULTS_UNTIL_COMPACTED = 200;

/** A run in which nothing went on violates nothing, and shows nothing. */
export function missingWork({ messages, marks }: Pick<Observed, "messages" | "marks">, work: Work): Violation[] {
  const has = new Set(eventsOf(messages).map(({ type }) => type));
  const missing = [
    ...(work.lasting.length < work.lastingWanted
      ? [`${work.lastingWanted - work.lasting.length} lasting sessions`]
      : []),
    ...(work.mortal.length === 0 ? ["sessions that end"] : []),
    ...(marks.length === 0 ? ["marks"] : []),
    ...(has.has("RepositoryCopied") ? [] : ["copies of a repository"]),
    ...(work.faults < FAULTS_UNTIL_COMPACTED || has.has("HistoryCompacted")
      ? []
      : ["histories that were made shorter"]),
  ];
  return missing.map((what) => ({ of: "rest", session: "", text: `The run is to show something and had no ${what}` }));
}

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
