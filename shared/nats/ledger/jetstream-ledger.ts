// The ledger on the JetStream stream LEDGER. A session is one subject, so the server's check of the subject's last
// sequence is the lock, and a version is that sequence: it rises with gaps and is only ever passed back.
import type { NatsConnection } from "nats";
import type { Writer } from "#schemas/ledger/event.ts";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { type Append, decodeMessage, encodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import { breakAfter } from "#shared/ledger/verify.ts";
import { publish } from "./publish.ts";
import { nextMessage } from "./stream-reader.ts";

export type LedgerOptions = Readonly<{
  nats: NatsConnection;
  writer: Writer;
  /** As at the first start: it decides the subjects. */
  shards: number;
  blobs: Blobs;
  /** Without it everything is read from JetStream, which takes long for an old session in a large ledger. */
  mirror?: MirrorReader;
}>;

/** A tail of more messages than this is looked up in the mirror. */
const TAIL_MAX = 50;

export function openLedger(options: LedgerOptions): Ledger {
  return {
    append: (session, expected, events, cause) => append(options, { session, expected, events, cause }),
    read: (session, after) => read(options, session, after ?? NEW_SESSION),
  };
}

async function append({ nats, writer, shards, blobs }: LedgerOptions, request: Append): Promise<LedgerMessage> {
  const message = await encodeMessage(writer, request, blobs);
  const subject = ledgerSubject(request.session, shards);
  const sequence = await publish(nats, { subject, expectedSequence: request.expected.sequence, message });
  return { ...message, sequence };
}

async function read(options: LedgerOptions, session: string, after: Version) {
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

async function* storedMessages(options: LedgerOptions, session: string, after: number): AsyncGenerator<StoredMessage> {
  const subject = ledgerSubject(session, options.shards);
  let last = after;
  for (let tail = after === NEW_SESSION.sequence ? TAIL_MAX : 0; ; tail++) {
    const rows = tail === TAIL_MAX ? await options.mirror?.read(session, last) : undefined;
    for (const row of rows ?? []) {
      yield row;
      last = row.sequence;
    }
    const found = await nextMessage(options.nats, last + 1, subject);
    if (found === undefined) return;
    yield found;
    last = found.sequence;
  }
}
