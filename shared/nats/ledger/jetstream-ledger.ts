// The ledger on the JetStream stream LEDGER. A session is one subject, so the server's check of the subject's last
// sequence is the lock, and a version is that sequence: it rises with gaps and is only ever passed back.
import { type NatsConnection, NatsError } from "nats";
import type { Writer } from "#schemas/ledger/event.ts";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { Fatal, failureOf } from "#shared/errors/errors.ts";
import { type Append, decodeMessage, encodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { breakAfter } from "#shared/ledger/verify.ts";
import { type Log, silentLog } from "#shared/service/log.ts";
import { dispensableMirror } from "./dispensable-mirror.ts";
import type { LossGuard } from "./loss-guard.ts";
import { publish } from "./publish.ts";
import { scanLedger } from "./scan.ts";
import { nextMessage } from "./stream-reader.ts";

export type LedgerOptions = Readonly<{
  nats: NatsConnection;
  writer: Writer;
  /** As at the first start: it decides the subjects. */
  shards: number;
  blobs: Blobs;
  /** Without it everything is read from JetStream, which takes long for an old session in a large ledger. */
  mirror?: MirrorReader;
  /** How long an append goes on without an answer of the server. */
  patienceMs?: number | undefined;
  /** Asked before anything is sent. */
  lossGuard?: LossGuard;
  /** Shared by all who read the ledger in this process. */
  recent?: RecentMessages | undefined;
  log?: Log;
}>;

/** Messages that are asked for one after another. A longer tail is looked up in the mirror, and then scanned. */
const TAIL_MAX = 50;
const PATIENCE_MS = 20_000;

const BREAK = "chain_broken";

type Sources = LedgerOptions & Readonly<{ copy: MirrorReader }>;
type Wanted = Sources & Readonly<{ session: string; subject: string }>;
type Reading = Readonly<{ messages: LedgerMessage[]; version: Version }>;

export function openLedger(options: LedgerOptions): Ledger {
  const sources = { ...options, copy: dispensableMirror(options.mirror, options.log ?? silentLog) };
  return {
    append: (session, expected, events, cause) => append(options, { session, expected, events, cause }),
    read: (session, after) => read(sources, session, after ?? NEW_SESSION),
  };
}

async function append(options: LedgerOptions, request: Append): Promise<LedgerMessage> {
  const { nats, writer, shards, blobs, recent, lossGuard, patienceMs = PATIENCE_MS } = options;
  const message = await encodeMessage(writer, request, blobs);
  const subject = ledgerSubject(request.session, shards);
  const publication = { subject, expectedSequence: request.expected.sequence, message };
  const stored = { ...message, sequence: await publish(nats, publication, { patienceMs, lossGuard }) };
  lossGuard?.stored({ sequence: stored.sequence, messageId: stored.id });
  recent?.keepAppended(subject, stored);
  return stored;
}

/**
 * A few messages from the stream, then all that the mirror has, then the stream's tail. The stream is the truth: what
 * the mirror has counts only while its chain holds, up to the stream's message behind it.
 */
async function read(options: Sources, session: string, after: Version): Promise<Reading> {
  const wanted = { ...options, session, subject: ledgerSubject(session, options.shards) };
  const { nats, copy, log = silentLog } = options;
  let head: Reading = { messages: [], version: after };
  if (after.sequence !== NEW_SESSION.sequence) {
    head = await followed(wanted, head, oneByOne(nats, wanted.subject, after.sequence));
    if (head.messages.length < TAIL_MAX) return head;
  }
  const rows = await copy.read(session, head.version.sequence);
  let known = head;
  try {
    known = await followed(wanted, head, rows);
    return await followed(wanted, known, tail(wanted, known.version.sequence));
  } catch (error) {
    // A break behind the mirror's last row may be that row's fault. Whatever else is wrong with the tail is the stream's.
    const mayBeMirror = rows.length > 0 && (known === head || isBreak(error));
    if (!mayBeMirror || !(error instanceof Fatal)) throw error;
    const fields = { code: "mirror_broken", session, failure: failureOf(error) };
    log.error(fields, "The mirror's copy of a session does not hold: it is read from the stream alone");
    return followed(wanted, head, theRest(wanted, head.version.sequence));
  }
}

/** `known` and what follows on it. Throws a Fatal `chain_broken`, and what decodeMessage throws. */
async function followed(
  { session, blobs }: Wanted,
  known: Reading,
  stored: Iterable<StoredMessage> | AsyncIterable<StoredMessage>,
): Promise<Reading> {
  const messages = [...known.messages];
  let { version } = known;
  for await (const one of stored) {
    const message = await decodeMessage(one, blobs);
    const broken = breakAfter(version, message);
    if (broken !== undefined || message.session !== session) {
      const reason = broken?.reason ?? `It belongs to ${message.session}`;
      const next = "Run pistis ledger verify and restore the message from the other copy (mirror or stream).";
      throw new Fatal(BREAK, `Ledger message ${message.sequence} of ${session}: ${reason}`, { next });
    }
    version = { sequence: message.sequence, hash: message.hash };
    messages.push(message);
  }
  return { messages, version };
}

function isBreak(error: unknown): boolean {
  return error instanceof Fatal && error.code === BREAK;
}

async function* tail(wanted: Wanted, after: number): AsyncGenerator<StoredMessage> {
  const reached = yield* oneByOne(wanted.nats, wanted.subject, after);
  if (reached !== undefined) yield* theRest(wanted, reached);
}

/** At most TAIL_MAX. Returns where it stopped; undefined at the end of the session. */
async function* oneByOne(
  nats: NatsConnection,
  subject: string,
  after: number,
): AsyncGenerator<StoredMessage, number | undefined> {
  let last = after;
  for (let count = 0; count < TAIL_MAX; count++) {
    const found = await nextMessage(nats, last + 1, subject);
    if (found === undefined) return undefined;
    yield found;
    last = found.sequence;
  }
  return last;
}

/** A server whose configuration is of an older version lets not every service make consumers: then one by one. */
async function* theRest({ nats, subject }: Wanted, after: number): AsyncGenerator<StoredMessage> {
  let last: number | undefined = after;
  try {
    for await (const stored of scanLedger(nats, { after, subject })) {
      yield stored;
      last = stored.sequence;
    }
  } catch (error) {
    if (!(error instanceof NatsError && error.isPermissionError())) throw error;
    while (last !== undefined) last = yield* oneByOne(nats, subject, last);
  }
}
