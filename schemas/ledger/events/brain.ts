import { z } from "zod";
import { type EventsOf, entriesOf } from "../entry.ts";
import { count, digest, failure, id, usage } from "../parts.ts";

const entry = entriesOf("brain");

const callId = id.describe("The call's id; pistisd runs it at most once");
const epoch = z.number().int().positive().describe("Rises with every brain that takes the session");

export const replyPart = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: z.string() }),
  z.strictObject({
    type: z.literal("reasoning"),
    text: z.string(),
    providerMetadata: z.json().optional().describe("Opaque: given back to the same provider, e.g. a signature"),
  }),
  z.strictObject({
    type: z.literal("tool-call"),
    callId,
    modelCallId: z.string().max(200).describe("The id that the model gave the call"),
    tool: z.string().max(200),
    input: z.json().describe("As the model sent it, not yet validated"),
  }),
]);

export const toolOutcome = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("exited"), exitCode: z.number().int() }),
  z.strictObject({ status: z.literal("signalled"), signal: z.string().max(40) }),
  z.strictObject({ status: z.literal("timed-out"), timeoutMs: count }),
  z.strictObject({ status: z.literal("stopped") }),
  z.strictObject({ status: z.literal("background"), handle: z.string().max(100) }),
  z.strictObject({ status: z.literal("ok") }),
  z.strictObject({ status: z.literal("failed"), failure }),
]);

export const output = z.strictObject({
  bytes: count.describe("All bytes that the command wrote"),
  omittedBytes: count.describe("Bytes between head and tail that `text` leaves out"),
  digest: digest.optional().describe("SHA-256 of the whole output, when all of it was seen"),
});

/** What of the conversation the model is no longer given in full. The ledger keeps all of it. */
export const compaction = z.discriminatedUnion("kind", [
  z
    .strictObject({
      kind: z.literal("results-shortened"),
      uptoReplyId: id.describe("The calls of this reply and of those before it"),
      charactersMax: count.describe("Of a result that is longer, the head and the tail are left, this many together"),
    })
    .describe("Old results are given as head and tail"),
  z
    .strictObject({
      kind: z.literal("summarized"),
      uptoReplyId: id.describe("This reply, its results and all before it, but for the user's first message"),
      summary: z.string().max(100_000),
      usage,
      costUsd: z.number().nonnegative().nullable().describe("null: no price is known for this model"),
    })
    .describe("A summary stands for the older part"),
  z
    .strictObject({ kind: z.literal("cut"), charactersMax: count.describe("Of each text, head and tail together") })
    .describe("Every text that there is so far is given as head and tail, also the newest"),
]);

export const brainEvents = {
  TurnStarted: entry(
    "A brain took the session and gives these messages to the model",
    z.strictObject({ turnId: id, epoch, brain: z.string().max(100), messageIds: z.array(id).min(1) }),
  ),
  TurnTakenOver: entry(
    "Another brain goes on with an open turn, under a raised epoch",
    z.strictObject({ turnId: id, epoch, brain: z.string().max(100) }),
  ),
  MessagesDelivered: entry(
    "Messages that arrived during the turn were given to the model",
    z.strictObject({ turnId: id, messageIds: z.array(id).min(1) }),
  ),
  ModelReplied: entry(
    "The model's reply to one request",
    z.strictObject({
      turnId: id,
      replyId: id,
      model: z.string().max(200),
      content: z.array(replyPart),
      finishReason: z.enum(["stop", "length", "content-filter", "tool-calls", "error", "other"]),
      usage,
      costUsd: z.number().nonnegative().nullable().describe("null: no price is known for this model"),
      requestMs: count,
    }),
  ),
  HistoryCompacted: entry(
    "The conversation came near the model's context window, so part of it is given shortened from here on",
    z.strictObject({
      turnId: id,
      compaction,
      tokensBefore: count.describe("An estimate, as the next one"),
      tokensAfter: count,
    }),
  ),
  ToolStarted: entry(
    "The call is about to leave the brain; written before its first byte does",
    z.strictObject({ turnId: id, callId, tool: z.string().max(200), epoch, sandboxId: id.optional() }),
  ),
  ToolDone: entry(
    "The call's result is saved",
    z.strictObject({
      turnId: id,
      callId,
      outcome: toolOutcome,
      text: z.string().describe("What the model is given"),
      output: output.optional(),
      durationMs: count,
    }),
  ),
  ToolOutcomeUnknown: entry(
    "Nobody can say how the call ended: it may have partly or fully run",
    z.strictObject({ turnId: id, callId, reason: z.string().max(200), text: z.string().max(4_000) }),
  ),
  ToolNotRun: entry(
    "The call did not run and never will",
    z.strictObject({ turnId: id, callId, reason: z.string().max(200), text: z.string().max(4_000) }),
  ),
  ToolRefused: entry(
    "The call was refused before it started: no such tool, or input that does not fit",
    z.strictObject({ turnId: id, callId, failure, text: z.string().max(8_000) }),
  ),
  SandboxNeeded: entry(
    "The turn needs a running sandbox",
    z.strictObject({ turnId: id, reason: z.enum(["absent", "stopped", "unreachable", "unprobed"]) }),
  ),
  TurnEnded: entry(
    "The turn is over",
    z.strictObject({
      turnId: id,
      reason: z.enum(["completed", "interrupted", "failed", "limit"]),
      failure: failure.optional().describe("Present when the reason is failed or limit"),
    }),
  ),
  SessionEnded: entry("The session is over; its sandbox is deleted", z.strictObject({})),
};

export type BrainEvent = EventsOf<typeof brainEvents>;
export type ReplyPart = z.output<typeof replyPart>;
export type Compaction = z.output<typeof compaction>;
export type ToolOutcome = z.output<typeof toolOutcome>;
