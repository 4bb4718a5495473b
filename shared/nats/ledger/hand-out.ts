// A batch of stored messages on its way to the service's handler, whoever took it from the consumer (react.ts,
// window.ts): read, watched for breaks of the chain, delivered, and parked where it cannot be.
import { JSONCodec, NatsError } from "nats";
import { LEDGER_STREAM, parkedSubject } from "#schemas/ledger/subjects.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import type { ChainWatch } from "#shared/ledger/chain-watch.ts";
import { type Delivery, deliver, type Parked, parkedOf, parkUntilRecorded } from "#shared/ledger/delivery.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { rereadGap } from "./gap-alarm.ts";
import type { Batch } from "./hold.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import type { Pulled } from "./pull.ts";
import { unavailable } from "./stream-reader.ts";

/** A batch is not longer than this in bytes, but for its last message. */
export const BATCH_BYTES_MAX = 4 * 1024 * 1024;

export type ShardDelivery = Delivery &
  Readonly<{
    gatherMs: number;
    watch: ChainWatch;
    /** Aborts when a stop has waited long enough. */
    late: AbortSignal;
  }>;

/** What cannot be read is parked in its place, after what stands before it. */
export async function deliverStored(context: FeedContext, batch: Batch, delivery: ShardDelivery): Promise<boolean> {
  const { blobs, recent } = context;
  let readable: LedgerMessage[] = [];
  for (const stored of batch) {
    try {
      const message = await recent.decode(stored, blobs);
      await watchChain(context, message, stored.subject, delivery);
      readable.push(message);
    } catch (error) {
      if (!(error instanceof Fatal)) throw error;
      if (!(await deliver(readable, delivery))) return false;
      readable = [];
      const session = stored.subject.split(".")[2] ?? "";
      delivery.watch.saw({ session, sequence: stored.sequence, hash: sha256(stored.bytes) });
      if (!(await parkUntilRecorded(parkedOf(stored.sequence, session, error, delivery), delivery))) return false;
    }
  }
  return deliver(readable, delivery);
}

/** What is between may have gone to another replica, so only a break in the store itself counts. */
async function watchChain(
  context: FeedContext,
  message: LedgerMessage,
  subject: string,
  { watch, consumer }: ShardDelivery,
): Promise<void> {
  const gap = watch.gapBefore(message);
  if (gap !== undefined) await rereadGap(context, { consumer, subject, watch }, gap, message);
  watch.saw(message);
}

export function say({ nats }: FeedContext, { ackSubject }: Pulled, word: "+ACK" | "-NAK" | "+WPI"): void {
  if (!nats.isClosed()) nats.publish(ackSubject, word);
}

/** In the stream PARKED, once per consumer and message. */
export async function recordParked({ nats }: FeedContext, parked: Parked): Promise<void> {
  try {
    const subject = parkedSubject(LEDGER_STREAM, parked.consumer);
    const id = `${parked.consumer}.${parked.sequence}`;
    await nats.jetstream().publish(subject, JSONCodec<Parked>().encode(parked), { msgID: id });
  } catch (cause) {
    if (!(cause instanceof NatsError)) throw cause;
    throw unavailable(`Ledger message ${parked.sequence} could not be parked: ${cause.message}`, cause);
  }
}
