// What was posted reaches the model, once.
import { eventsOf, type Observed, type ObservedMessage } from "../observed.ts";
import type { Violation } from "../violation.ts";

/** Each message that was posted reached the model once, or was left by a session that ended. */
export function deliveriesIn(session: string, messages: readonly ObservedMessage[]): Violation[] {
  const times = new Map<string, number>();
  let isOver = false;
  for (const event of eventsOf(messages)) {
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
export function lostMessages({ messages, accepted }: Observed): Violation[] {
  const posted = eventsOf(messages).flatMap((event) => (event.type === "MessagePosted" ? [event.data.messageId] : []));
  const times = Map.groupBy(posted, (messageId) => messageId);
  return accepted.flatMap(({ session, messageId }): Violation[] => {
    const count = times.get(messageId)?.length ?? 0;
    if (count === 1) return [];
    return [{ of: "delivery", session, text: `Message ${messageId} was accepted and is in the ledger ${count} times` }];
  });
}
