// What people may do to a session. Requests come at least once, so asking for what already holds decides nothing.
import { QUEUED_MESSAGES_MAX } from "#schemas/api/session.ts";
import type { GatewayEvent } from "#schemas/ledger/events/gateway.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { messageOf, type Session } from "./session.ts";

export type SessionCommand =
  | {
      type: "CreateSession";
      title: string;
      model: string;
      provider: string;
      repository?: RepositorySource | undefined;
      message?: { messageId: string; text: string } | undefined;
    }
  | { type: "PostMessage"; messageId: string; text: string; delivery: "steer" | "queue" }
  | { type: "WithdrawMessage"; messageId: string }
  | { type: "InterruptTurn" }
  | { type: "EndSession" };

type Of<Type extends SessionCommand["type"]> = Extract<SessionCommand, { type: Type }>;
type Existing = Exclude<Session, { status: "absent" }>;

export function decide(session: Session, command: SessionCommand): GatewayEvent[] {
  switch (command.type) {
    case "CreateSession":
      return create(session, command);
    case "PostMessage":
      return post(existing(session), command);
    case "WithdrawMessage":
      return withdraw(existing(session), command);
    case "InterruptTurn":
      return interrupt(existing(session));
    case "EndSession":
      return end(existing(session));
  }
}

function create(session: Session, { title, model, provider, repository, message }: Of<"CreateSession">) {
  if (session.status !== "absent") return [];
  const source = repository === undefined ? {} : { repository };
  const created: GatewayEvent = { type: "SessionCreated", data: { title, model, provider, ...source } };
  if (message === undefined) return [created];
  const posted: GatewayEvent = { type: "MessagePosted", data: { ...message, delivery: "steer" } };
  return [created, posted];
}

function post(session: Existing, { messageId, text, delivery }: Of<"PostMessage">): GatewayEvent[] {
  const known = messageOf(session.messages, messageId);
  if (known !== undefined) {
    if (known.textDigest === sha256(text) && known.delivery === delivery) return [];
    const next = "Give each message an id of its own, or none.";
    throw new Refusal("message_id_reused", `${messageId} is another message of this session`, { next });
  }
  refuseEnded(session);
  const queued = session.messages.queued.size;
  if (queued >= QUEUED_MESSAGES_MAX) {
    const next = "Withdraw messages, or wait until the model has been given them.";
    throw new Refusal("queue_full", `${queued} messages wait already`, { next });
  }
  return [{ type: "MessagePosted", data: { messageId, text, delivery } }];
}

function withdraw(session: Existing, { messageId }: Of<"WithdrawMessage">): GatewayEvent[] {
  const message = messageOf(session.messages, messageId);
  if (message === undefined) {
    const next = "Read the session: its queue lists the messages that can be withdrawn.";
    throw new Refusal("message_not_found", `The session has no message ${messageId}`, { next });
  }
  if (message.status === "withdrawn") return [];
  if (message.status === "delivered") {
    const next = "Interrupt the turn to stop what the model makes of it.";
    throw new Refusal("already_delivered", "The model has seen the message", { next });
  }
  return [{ type: "MessageWithdrawn", data: { messageId } }];
}

function interrupt(session: Existing): GatewayEvent[] {
  if (session.status !== "running") {
    const next = "Nothing runs. Messages that wait can be withdrawn.";
    throw new Refusal("no_open_turn", "The session has no open turn", { next });
  }
  return session.interruptRequested ? [] : [{ type: "InterruptRequested", data: { turnId: session.turnId } }];
}

function end(session: Existing): GatewayEvent[] {
  const over = session.status === "ending" || session.status === "ended";
  return over ? [] : [{ type: "SessionEndRequested", data: {} }];
}

function existing(session: Session): Existing {
  if (session.status !== "absent") return session;
  throw new Refusal("session_not_found", "There is no such session", { next: "List the sessions for their ids." });
}

function refuseEnded({ status }: Existing): void {
  if (status !== "ending" && status !== "ended") return;
  throw new Refusal("session_ended", "The session is over", { next: "Open a new session." });
}
