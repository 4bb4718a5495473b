// One ledger message: the events of one append, who wrote them, what caused them, and the hash of the
// session's previous message, so that loss, reordering and edits are visible.
import { z } from "zod";
import { digest, id } from "./parts.ts";

export const MESSAGE_BYTES_MAX = 256 * 1024;
export const ENVELOPE_VERSION = 1;

export const storedEvent = z.strictObject({ type: z.string(), version: z.number().int().positive(), data: z.json() });

export const blobRef = z.strictObject({
  digest,
  bytes: z.number().int().nonnegative(),
  head: z.string().max(2_000).describe("Excerpt of the start, for people"),
  tail: z.string().max(2_000).describe("Excerpt of the end, for people"),
});

export const envelope = z.strictObject({
  envelopeVersion: z.literal(ENVELOPE_VERSION),
  id: id.describe("Also the Nats-Msg-Id"),
  at: z.iso.datetime(),
  session: id,
  writer: z.enum(["gateway", "brain", "scheduler", "publisher"]),
  correlationId: id.describe("The user's message, or the session where there is none"),
  causationId: id.nullable().describe("The ledger message that this one answers"),
  traceparent: z.string().max(100).optional(),
  prev: z.union([digest, z.literal("")]).describe("SHA-256 of the session's previous message; empty for the first"),
  events: z.union([z.array(storedEvent).min(1), blobRef]).describe("In a blob when they do not fit into one message"),
});

export type EnvelopeMessage = z.output<typeof envelope>;
export type BlobRef = z.output<typeof blobRef>;
