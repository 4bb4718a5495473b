// What `pistis ledger verify` reads: the stream, the mirror, and what the projector gave up.
import type { NatsConnection } from "nats";
import { LEDGER_STREAM, ledgerSubject, shardOf } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Mirror, MirroredMessage } from "#shared/ledger/mirror.ts";
import { type Verification, verifyCopies } from "#shared/ledger/verification.ts";
import { readParked } from "./parked.ts";
import { scanLedger, WHOLE_LEDGER } from "./scan.ts";
import { lastSequence } from "./standing.ts";

export type VerifyOptions = Readonly<{
  /** Of the user `setup`, who alone may read what was parked. */
  nats: NatsConnection;
  shards: number;
  blobs: Blobs;
  mirror: Mirror;
  /** All of them without it. */
  session?: string | undefined;
  onProgress: (sequence: number) => void;
}>;

const PAGE = 200;

/** Reads only. Throws a Retryable `ledger_unavailable`, and what the database throws. */
export async function verifyLedger(options: VerifyOptions): Promise<Verification> {
  const { nats, shards, blobs, mirror, session, onProgress } = options;
  // Before the mirror's rows are read: up to here they must be there.
  const marks = await mirror.marks();
  const parked = new Map(
    (await readParked(nats))
      .filter(({ stream, consumer }) => stream === LEDGER_STREAM && consumer.startsWith("projector-"))
      .map(({ sequence, code, reason }) => [sequence, `${code}: ${reason}`]),
  );
  const subject = session === undefined ? WHOLE_LEDGER : ledgerSubject(session, shards);
  return verifyCopies({
    stream: scanLedger(nats, { after: 0, subject }),
    mirror: session === undefined ? pages(mirror) : rowsOf(mirror, session),
    lastInStream: () => lastSequence(nats),
    markOf: (of) => marks.get(shardOf(of, shards)) ?? 0,
    subjectOf: (of) => ledgerSubject(of, shards),
    blobs,
    parked: (sequence) => parked.get(sequence),
    oneSession: session !== undefined,
    onProgress,
  });
}

async function* pages(mirror: Mirror): AsyncGenerator<MirroredMessage> {
  for (let last = 0; ; ) {
    const page = await mirror.page(last, PAGE);
    yield* page;
    const end = page.at(-1);
    if (end === undefined) return;
    last = end.sequence;
  }
}

async function* rowsOf(mirror: Mirror, session: string): AsyncGenerator<MirroredMessage> {
  for (const stored of await mirror.read(session, 0)) yield { ...stored, session };
}
