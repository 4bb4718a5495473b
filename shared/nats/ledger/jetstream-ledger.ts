// The ledger on the JetStream stream LEDGER. A session is one subject, so the server's check of the subject's last
// sequence is the lock, and a version is that sequence: it rises with gaps and is only ever passed back.
import { type NatsConnection, NatsError } from "nats";
import type { Writer } from "#schemas/ledger/event.ts";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { Fatal } from "#shared/errors/errors.ts";
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

type Sources = LedgerOptions & Readonly<{ copy: MirrorReader }>;

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

async function read(options: Sources, session: string, after: Version) {
  const messages: LedgerMessage[] = [];
  let version = after;
  for await (const stored of storedMessages(options, session, after.sequence)) {
    const message = await decodeMessage(stored, options.blobs);
    const broken = breakAfter(version, message);
    if (broken !== undefined || message.session !== session) {
      const next = "Run pistis ledger verify and restore the message from the other copy (mirror or stream).";
      const reason = broken?.reason ?? `It belongs to ${message.session}`;
      throw new Fatal("chain_broken", `Ledger message ${message.sequence} of ${session}: ${reason}`, { next });
    }
    version = { sequence: message.sequence, hash: message.hash };
    messages.push(message);
  }
  return { messages, version };
}

/** What follows on `after`: a few from the stream, then all that the mirror has, then the stream's tail. */
async function* storedMessages(options: Sources, session: string, after: number): AsyncGenerator<StoredMessage> {
  const subject = ledgerSubject(session, options.shards);
  let last = after;
  if (after !== NEW_SESSION.sequence) {
    const reached = yield* oneByOne(options.nats, subject, last);
    if (reached === undefined) return;
    last = reached;
  }
  for (const row of await options.copy.read(session, last)) {
    yield row;
    last = row.sequence;
  }
  const tail = yield* oneByOne(options.nats, subject, last);
  if (tail !== undefined) yield* theRest(options, subject, tail);
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
async function* theRest({ nats }: Sources, subject: string, after: number): AsyncGenerator<StoredMessage> {
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
