// The ledger as the HTTP API shows it: pages by cursor, and Server-Sent Events.
//
// A stream sends `event: ledger` with `id:` the message's sequence, and `event: live` without an id, so that
// Last-Event-ID is always the last ledger message that was seen. A comment line every 15 s shows that it lives.
import { z } from "zod";
import { catalogue, type PistisEvent } from "../ledger/event.ts";
import { count, digest, id } from "../ledger/parts.ts";
import { liveMessage } from "../live/live.ts";
import { sessionId } from "./session.ts";

export const EVENTS_PAGE_MAX = 1_000;

export const writer = z.enum(["gateway", "brain", "scheduler", "publisher"]);

const [firstForm, ...otherForms] = Object.entries(catalogue).map(([type, { schema, summary }]) =>
  z.strictObject({ type: z.literal(type), data: schema }).meta({ id: type, description: summary }),
);
if (firstForm === undefined) throw new Error("The catalogue of events is empty");

/** Any event of the ledger, in its newest form. The catalogue's own type says which data goes with which type. */
export const ledgerEvent = z
  .discriminatedUnion("type", [firstForm, ...otherForms])
  .meta({ id: "LedgerEvent" }) as unknown as z.ZodType<PistisEvent>;

export const ledgerMessage = z
  .strictObject({
    sequence: count.describe("Cursor: rises within a session and over the whole install, with gaps"),
    id,
    session: id,
    at: z.iso.datetime(),
    writer,
    correlationId: id.describe("The user's message that this belongs to, or the session"),
    causationId: id.nullable(),
    hash: digest.describe("SHA-256 of the stored message"),
    prev: z.union([digest, z.literal("")]).describe("Hash of the session's message before"),
    events: z.array(ledgerEvent),
  })
  .meta({ id: "LedgerMessage" });

const cursor = z.coerce.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

export const eventsQuery = z.strictObject({
  after: cursor.default(0).describe("Only messages after this sequence"),
  before: z
    .union([z.literal("end"), cursor])
    .optional()
    .describe("The newest messages before this sequence, or before the end, in order; `after` is not heeded then"),
  limit: z.coerce.number().int().min(1).max(EVENTS_PAGE_MAX).default(200),
});

export const eventsPage = z
  .strictObject({
    messages: z.array(ledgerMessage),
    cursor: count.describe("Give it as `after` to go on"),
    oldest: count.describe("Give it as `before` to go back"),
    more: z.boolean().describe("true: another page is there already, in the direction of this one"),
  })
  .meta({ id: "EventsPage" });

export const streamQuery = z.strictObject({
  after: cursor.optional().describe("Only messages after this sequence; a Last-Event-ID header wins over it"),
  last: z.coerce
    .number()
    .int()
    .min(1)
    .max(EVENTS_PAGE_MAX)
    .optional()
    .describe("Without a cursor: begin with the last so many messages instead of the first"),
});

export const installStreamQuery = z.strictObject({
  after: cursor.optional().describe("Only messages after this sequence; what comes from now on when absent"),
  session: sessionId.optional(),
  writer: writer.optional(),
  type: z.string().min(1).max(100).optional().describe("Messages that hold an event of this type"),
});

export const streamHeaders = z.object({
  "last-event-id": cursor.optional().describe("Sent by EventSource when it reconnects"),
});

/** Data of a `live` event: need not last, may be left out for a slow reader; gaps show in the numbers. */
export const liveEvent = z.strictObject({ session: id, message: liveMessage }).meta({ id: "LiveEvent" });

export const SSE_LEDGER = "ledger";
export const SSE_LIVE = "live";

export type LedgerMessageView = z.output<typeof ledgerMessage>;
export type EventsPage = z.output<typeof eventsPage>;
export type LiveEvent = z.output<typeof liveEvent>;
export type InstallStreamQuery = z.output<typeof installStreamQuery>;
