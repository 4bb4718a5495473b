// Sessions and messages as the HTTP API takes and gives them.
import { z } from "zod";
import { delivery } from "../ledger/events/gateway.ts";
import { count, failure, id, repositorySource, usage } from "../ledger/parts.ts";

export const MESSAGE_CHARACTERS_MAX = 1_000_000;
export const QUEUED_MESSAGES_MAX = 1_000;
export const SESSIONS_PAGE_MAX = 200;

export const sessionId = z
  .string()
  .regex(/^ses_[0-9a-z]{1,64}$/)
  .describe("The session's id, such as ses_01j…");
export const messageId = z
  .string()
  .regex(/^msg_[0-9a-z]{1,64}$/)
  .describe("The message's id, such as msg_01j…");

const text = z.string().min(1).max(MESSAGE_CHARACTERS_MAX).describe("What the model is told");

export const createSession = z
  .strictObject({
    title: z.string().min(1).max(200).optional().describe("The message's first line when absent"),
    model: z.string().min(1).max(200).optional().describe("Name of a model in pistis.json; its default when absent"),
    repository: repositorySource.optional().describe("Copied to /workspace/repo in the sandbox"),
    provider: z.string().min(1).max(50).optional().describe("Sandbox provider; the default of pistis.json when absent"),
    message: z
      .strictObject({ text, messageId: messageId.optional() })
      .optional()
      .describe("The first message, stored together with the session"),
  })
  .meta({ id: "CreateSession" });

export const postMessage = z
  .strictObject({
    text,
    delivery: delivery.default("steer"),
    messageId: messageId
      .optional()
      .describe("Makes the request safe to repeat: the same id with the same text is stored once"),
  })
  .meta({ id: "PostMessage" });

export const sandboxState = z
  .enum(["absent", "starting", "running", "exposed", "stopped", "missing", "failed", "destroyed"])
  .describe(
    "running: pistisd in it has joined; exposed: its network is not closed as it should be, nothing is run in it",
  );

export const sessionStatus = z
  .enum(["idle", "running", "ending", "ended"])
  .describe("running: a turn is open; ending: its end was asked for");

export const sessionOverview = z
  .strictObject({
    id: sessionId,
    title: z.string(),
    model: z.string(),
    provider: z.string(),
    repository: repositorySource.nullable(),
    status: sessionStatus,
    openTurnId: id.nullable(),
    lastTurn: z
      .strictObject({
        turnId: id,
        reason: z.enum(["completed", "interrupted", "failed", "limit"]),
        failure: failure.optional(),
      })
      .nullable()
      .describe("How the turn before ended"),
    queuedMessages: count.describe("Posted, and not yet given to the model"),
    queueHeld: z.boolean().describe("Stop was pressed: what waits is given to the model with the user's next message"),
    sandbox: z.strictObject({ state: sandboxState, sandboxId: id.nullable(), generation: count }),
    usage,
    costUsd: z.number().nonnegative().describe("Sum over the replies whose price is known"),
    costComplete: z.boolean().describe("false: at least one reply's model has no known price"),
    counts: z.strictObject({ turns: count, messages: count, replies: count, toolCalls: count }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime().describe("When the ledger was last written to"),
    lastSequence: count.describe("Ledger sequence that this answer is as of; a cursor for events and stream"),
  })
  .meta({ id: "SessionOverview" });

export const QUEUED_EXCERPT_CHARACTERS = 500;

export const queuedMessage = z.strictObject({
  messageId: id,
  excerpt: z.string().describe(`The first ${QUEUED_EXCERPT_CHARACTERS} characters of the text`),
  delivery,
  at: z.iso.datetime(),
});

export const sessionDetail = sessionOverview
  .extend({ queue: z.array(queuedMessage).describe("Messages that can still be withdrawn") })
  .meta({ id: "SessionDetail" });

export const sessionPageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(SESSIONS_PAGE_MAX).default(50),
  cursor: z.string().min(1).max(200).optional().describe("`next` of the page before"),
});

export const sessionPage = z
  .strictObject({
    sessions: z.array(sessionOverview).describe("The one written to last comes first"),
    next: z.string().nullable().describe("Cursor of the next page; null: this is the last one"),
  })
  .meta({ id: "SessionPage" });

export const createdSession = z
  .strictObject({
    session: sessionDetail,
    messageId: messageId.nullable().describe("Of the first message; null when there was none"),
  })
  .meta({ id: "CreatedSession" });

export const postedMessage = z
  .strictObject({
    messageId,
    sequence: count.describe("Ledger sequence at which the message stands"),
  })
  .meta({ id: "PostedMessage" });

export const withdrawnMessage = z
  .strictObject({ messageId, withdrawn: z.literal(true), sequence: count.describe("The session's last sequence") })
  .meta({ id: "WithdrawnMessage" });

export const interrupted = z
  .strictObject({ turnId: id.describe("The turn that is asked to stop"), sequence: count })
  .meta({ id: "Interrupted" });

export const endedSession = z
  .strictObject({ status: z.enum(["ending", "ended"]), sequence: count })
  .meta({ id: "EndedSession" });

export type QueuedMessage = z.output<typeof queuedMessage>;
export type CreateSession = z.input<typeof createSession>;
export type PostMessage = z.input<typeof postMessage>;
export type SessionOverview = z.output<typeof sessionOverview>;
export type SessionDetail = z.output<typeof sessionDetail>;
export type SessionPage = z.output<typeof sessionPage>;
export type CreatedSession = z.output<typeof createdSession>;
export type PostedMessage = z.output<typeof postedMessage>;
export type WithdrawnMessage = z.output<typeof withdrawnMessage>;
export type Interrupted = z.output<typeof interrupted>;
export type EndedSession = z.output<typeof endedSession>;
