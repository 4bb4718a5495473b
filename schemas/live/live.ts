// Live traffic need not last: token deltas, output chunks, progress. Core NATS on `live.<session>.<kind>`.
// Numbered per session and brain epoch, so that a reader sees a gap; it then reads the ledger.
import { z } from "zod";

const base = { epoch: z.number().int().nonnegative(), number: z.number().int().nonnegative() };

export const liveMessage = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("text-delta"), ...base, turnId: z.string(), replyId: z.string(), text: z.string() }),
  z.strictObject({
    kind: z.literal("reasoning-delta"),
    ...base,
    turnId: z.string(),
    replyId: z.string(),
    text: z.string(),
  }),
  z.strictObject({
    kind: z.literal("output"),
    ...base,
    callId: z.string(),
    position: z.number().int().nonnegative().describe("Byte position in the command's output"),
    text: z.string().describe("Bytes that are no UTF-8 are replaced"),
    skippedBytes: z.number().int().nonnegative().describe("Left out before this chunk because the reader is capped"),
  }),
  z.strictObject({
    kind: z.literal("progress"),
    ...base,
    step: z.string().max(100),
    text: z.string().max(1_000),
    percent: z.number().min(0).max(100).optional(),
  }),
]);

export type LiveMessage = z.output<typeof liveMessage>;
