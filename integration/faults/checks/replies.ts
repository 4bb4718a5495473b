// I6: the model is never asked while a call of an earlier reply has no result.
import { eventsOf, type ObservedMessage } from "../observed.ts";
import type { Violation } from "../violation.ts";

export function repliesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  const open = new Set<string>();
  return eventsOf(messages).flatMap((event): Violation[] => {
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
