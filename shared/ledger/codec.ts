// Ledger messages and their bytes. The bytes are JSON of schemas/ledger/envelope.ts; a message's hash is the
// SHA-256 of exactly these bytes, and the session's next message carries it as `prev`.
import { z } from "zod";
import {
  type BlobRef,
  blobRef,
  ENVELOPE_VERSION,
  type EnvelopeMessage,
  envelope,
  MESSAGE_BYTES_MAX,
} from "#schemas/ledger/envelope.ts";
import {
  isEventType,
  type PistisEvent,
  readEvent,
  type StoredEvent,
  storedEvent,
  UnknownEvent,
  type Writer,
  writerOf,
} from "#schemas/ledger/event.ts";
import { BLOB_BYTES_MAX, type Blobs } from "#shared/blobs/blobs.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { newId, sha256 } from "#shared/ids/ids.ts";
import type { Cause, LedgerMessage, Version } from "./ledger.ts";

/** A message as it stands in the stream or in the mirror. */
export type StoredMessage = Readonly<{ sequence: number; bytes: Uint8Array }>;

/** The message that it will be once the stream has given it a sequence. */
export type EncodedMessage = Omit<LedgerMessage, "sequence">;

type ReadableBlobs = Pick<Blobs, "get">;

export type Append = Readonly<{
  session: string;
  expected: Version;
  events: readonly PistisEvent[];
  cause: Cause;
}>;

const EXCERPT_CHARACTERS = 2_000;

// An event's data is checked by its own schema alone: it comes out of JSON.parse, and a second walk through all of it
// would take longer than everything else here.
const storedEvents = z.array(z.strictObject({ type: z.string(), version: z.number(), data: z.unknown() })).min(1);
const readableEnvelope = envelope.extend({ events: z.union([storedEvents, blobRef]) });

/**
 * The message of one append. Throws a Fatal: `foreign_event` for an event of another writer, `event_invalid` for what
 * its schema refuses, `message_too_large` above the limit of a blob.
 */
export async function encodeMessage(writer: Writer, append: Append, blobs: Blobs): Promise<EncodedMessage> {
  const stored = storedForm(writer, append.events);
  const { traceparent, ...cause } = append.cause;
  const head = {
    envelopeVersion: ENVELOPE_VERSION,
    id: newId("event"),
    at: new Date().toISOString(),
    session: append.session,
    writer,
    ...cause,
    ...(traceparent === undefined ? {} : { traceparent }),
    prev: append.expected.hash,
  } satisfies Omit<EnvelopeMessage, "events">;
  checkHead(head);
  const bytes = await bytesOf(head, stored, blobs);
  const { id, at, session, correlationId, causationId, prev } = head;
  const { events } = append;
  return { id, session, at, writer, correlationId, causationId, hash: sha256(bytes), prev, events, bytes };
}

/**
 * Reads a stored message of any version. Throws a Fatal: `message_unreadable` for what is no envelope, `event_unknown`
 * for a type or version without a reader, `event_invalid`, `foreign_event`, and what Blobs.get throws. Such a message
 * is parked by its consumer, never dropped.
 */
export async function decodeMessage(stored: StoredMessage, blobs: ReadableBlobs): Promise<LedgerMessage> {
  const { envelopeVersion: _version, traceparent: _trace, events, ...head } = readEnvelope(stored);
  const listed = Array.isArray(events) ? events : await eventsFromBlob(stored, events, blobs);
  return {
    ...head,
    sequence: stored.sequence,
    bytes: stored.bytes,
    hash: sha256(stored.bytes),
    events: listed.map((event) => readStored(stored.sequence, head.writer, event)),
  };
}

/** What a message says of itself, whatever its events are: for what checks and restores copies of the ledger. */
export type MessageHead = Readonly<{
  id: string;
  session: string;
  prev: string;
  hash: string;
  /** As in the header `Pistis-Types`. */
  types: string;
}>;

/** Throws a Fatal: `message_unreadable`, and what Blobs.get throws for events that are kept in a blob. */
export async function readHead(stored: StoredMessage, blobs: ReadableBlobs): Promise<MessageHead> {
  const { id, session, prev, events } = readEnvelope(stored);
  const listed = Array.isArray(events) ? events : await eventsFromBlob(stored, events, blobs);
  return { id, session, prev, hash: sha256(stored.bytes), types: typesText(listed.map(({ type }) => type)) };
}

function storedForm(writer: Writer, events: readonly PistisEvent[]): StoredEvent[] {
  if (events.length === 0) throw new Fatal("event_invalid", "An append holds at least one event");
  return events.map((event) => {
    const owner: Writer | undefined = isEventType(event.type) ? writerOf(event.type) : undefined;
    if (owner !== undefined && owner !== writer) {
      const next = "Let that service write it: each event type has one writer.";
      throw new Fatal("foreign_event", `${event.type} is written by ${owner}, not by ${writer}`, { next });
    }
    try {
      return storedEvent(event);
    } catch (cause) {
      throw new Fatal("event_invalid", `${event.type} does not fit its schema: ${reasonOf(cause)}`, { cause });
    }
  });
}

function checkHead(head: Omit<EnvelopeMessage, "events">): void {
  const checked = headSchema.safeParse(head);
  if (checked.success) return;
  throw new Fatal("event_invalid", `The message does not fit its envelope: ${reasonOf(checked.error)}`);
}

const headSchema = envelope.omit({ events: true });

async function bytesOf(head: Omit<EnvelopeMessage, "events">, events: StoredEvent[], blobs: Blobs) {
  const encoder = new TextEncoder();
  const inline = encoder.encode(JSON.stringify({ ...head, events }));
  if (inline.byteLength <= MESSAGE_BYTES_MAX) return inline;
  const text = JSON.stringify(events);
  const content = encoder.encode(text);
  if (content.byteLength > BLOB_BYTES_MAX) {
    throw new Fatal("message_too_large", `${content.byteLength} bytes of events are over ${BLOB_BYTES_MAX}`, {
      next: "Keep large content outside the ledger and name it in the event.",
    });
  }
  const ref = { ...(await blobs.put(content)), head: excerptOf(text), tail: text.slice(-EXCERPT_CHARACTERS) };
  return encoder.encode(JSON.stringify({ ...head, events: ref satisfies BlobRef }));
}

function excerptOf(text: string): string {
  return text.slice(0, EXCERPT_CHARACTERS);
}

function readEnvelope({ sequence, bytes }: StoredMessage) {
  try {
    return readableEnvelope.parse(parseJson(bytes));
  } catch (cause) {
    throw new Fatal("message_unreadable", `Ledger message ${sequence} is no envelope: ${reasonOf(cause)}`, { cause });
  }
}

async function eventsFromBlob({ sequence }: StoredMessage, ref: BlobRef, blobs: ReadableBlobs): Promise<StoredEvent[]> {
  const content = await blobs.get(ref.digest);
  try {
    return storedEvents.parse(parseJson(content));
  } catch (cause) {
    throw new Fatal("message_unreadable", `The blob of ledger message ${sequence} holds no events`, { cause });
  }
}

function readStored(sequence: number, writer: Writer, stored: StoredEvent): PistisEvent {
  const event = readKnown(sequence, stored);
  if (writerOf(event.type) === writer) return event;
  throw new Fatal("foreign_event", `Ledger message ${sequence} of ${writer} holds ${event.type}`, {
    next: "Look at who wrote it: no service of Pistis writes such a message.",
  });
}

function readKnown(sequence: number, stored: StoredEvent): PistisEvent {
  const where = `${stored.type} version ${stored.version} in ledger message ${sequence}`;
  try {
    return readEvent(stored);
  } catch (cause) {
    if (cause instanceof UnknownEvent) {
      const next = "Update this service: a newer one wrote the message.";
      throw new Fatal("event_unknown", `No reader for ${where}`, { cause, next });
    }
    throw new Fatal("event_invalid", `${where} does not fit its schema: ${reasonOf(cause)}`, { cause });
  }
}

function parseJson(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error);
  return error instanceof Error ? error.message : String(error);
}

/** For the header `Pistis-Types`, by which people and tools pick messages without reading them. */
export function eventTypes({ events }: Pick<LedgerMessage, "events">): string {
  return typesText(events.map(({ type }) => type));
}

function typesText(types: readonly string[]): string {
  return [...new Set(types)].join(",");
}
