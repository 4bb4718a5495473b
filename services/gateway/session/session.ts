// What the gateway must know of a session to say yes or no: is it open, which turn is, and what became of each
// message. Folded from everybody's events.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { sha256 } from "#shared/ids/ids.ts";

export type PostedMessage = Readonly<{
  /** SHA-256 of the text: the same message again is told apart from another one under its id. */
  textDigest: string;
  delivery: "steer" | "queue";
  status: "queued" | "delivered" | "withdrawn";
}>;

/** Messages that were given to the model or withdrawn, the newest first. Adding one copies nothing. */
export type Settled = Readonly<{ messageId: string; message: PostedMessage; before: Settled }> | undefined;

export type Messages = Readonly<{ queued: ReadonlyMap<string, PostedMessage>; settled: Settled }>;

export function messageOf({ queued, settled }: Messages, messageId: string): PostedMessage | undefined {
  const waiting = queued.get(messageId);
  if (waiting !== undefined) return waiting;
  for (let at = settled; at !== undefined; at = at.before) if (at.messageId === messageId) return at.message;
  return undefined;
}

export type Session =
  | { status: "absent" }
  | { status: "idle"; messages: Messages }
  | { status: "running"; messages: Messages; turnId: string; interruptRequested: boolean }
  | { status: "ending" | "ended"; messages: Messages };

export const initialState: Session = { status: "absent" };

export function evolve(session: Session, event: PistisEvent): Session {
  if (event.type === "SessionCreated") {
    return session.status === "absent"
      ? { status: "idle", messages: { queued: new Map(), settled: undefined } }
      : session;
  }
  return session.status === "absent" ? session : evolveCreated(session, event);
}

type Created = Exclude<Session, { status: "absent" }>;

function evolveCreated(session: Created, event: PistisEvent): Session {
  switch (event.type) {
    case "MessagePosted":
      return posted(session, event.data);
    case "MessageWithdrawn":
      return marked(session, [event.data.messageId], "withdrawn");
    case "MessagesDelivered":
      return marked(session, event.data.messageIds, "delivered");
    case "TurnStarted":
      return turnStarted(session, event.data);
    case "InterruptRequested":
      return session.status === "running" ? { ...session, interruptRequested: true } : session;
    case "TurnEnded":
      return session.status === "running" ? { status: "idle", messages: session.messages } : session;
    case "SessionEndRequested":
      return session.status === "ended" ? session : { status: "ending", messages: session.messages };
    case "SessionEnded":
      return { status: "ended", messages: session.messages };
    default:
      return session;
  }
}

function posted(session: Created, { messageId, text, delivery }: EventOf<"MessagePosted">["data"]): Session {
  const message: PostedMessage = { textDigest: sha256(text), delivery, status: "queued" };
  const queued = new Map(session.messages.queued).set(messageId, message);
  return { ...session, messages: { ...session.messages, queued } };
}

function turnStarted(session: Created, { turnId, messageIds }: EventOf<"TurnStarted">["data"]): Session {
  const { messages, status } = marked(session, messageIds, "delivered");
  if (status === "ending" || status === "ended") return { status, messages };
  return { status: "running", messages, turnId, interruptRequested: false };
}

function marked(session: Created, messageIds: readonly string[], status: PostedMessage["status"]): Created {
  const queued = new Map(session.messages.queued);
  let { settled } = session.messages;
  for (const messageId of messageIds) {
    const message = queued.get(messageId);
    if (message === undefined) continue;
    queued.delete(messageId);
    settled = { messageId, message: { ...message, status }, before: settled };
  }
  return { ...session, messages: { queued, settled } };
}
