// The durable consumers of a service: the one place where ledger messages are acknowledged, given back and parked.
//
// A shard's consumer lets one message out at a time, over all replicas (consumer.ts), so that whoever holds it
// holds the shard. More messages waiting behind it are read straight from the stream into the same batch; when the
// consumer delivers them in turn, they are acknowledged unread. Another replica would get some of them and handle
// them again, so a replica reads ahead only while nobody else takes part, which the consumer's own count tells.
import { setTimeout as delay } from "node:timers/promises";
import { JSONCodec, NatsError } from "nats";
import { LEDGER_STREAM, ledgerShardSubject, parkedSubject } from "#schemas/ledger/subjects.ts";
import { Fatal, failureOf } from "#shared/errors/errors.ts";
import type { StoredMessage } from "#shared/ledger/codec.ts";
import { type Delivery, deliver, type Parked, parkedOf, parkUntilRecorded, waited } from "#shared/ledger/delivery.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { ACK_WAIT_MS } from "./consumer.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import { Pull, type Pulled, pullRequest, remakeWaitMs } from "./pull.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

const BATCH_MAX = 64;
/** Reading ahead stops beyond this. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const FLUSH_MS = 2_000;
const NEVER = new AbortController().signal;
const EXPIRED = new Set([404, 408]);

/** Sequences up to which this replica has handled and acknowledged messages, and its last delivery's number. */
type Progress = { done: number; acknowledged: number; delivery: number };
type Batch = readonly (StoredMessage & { subject: string })[];

/** Works off every shard until it is closed; closing finishes the batch in hand. */
export function react(context: FeedContext, options: { consumer: string; handle: Delivery["handle"] }) {
  const stop = new AbortController();
  const shards = Array.from({ length: context.shards }, (_, shard) => {
    const consumer = `${options.consumer}-${shard}`;
    const park = (parked: Parked) => recordParked(context, parked);
    const { log } = context;
    return workShard(context, shard, { consumer, handle: options.handle, park, log, stopping: stop.signal });
  });
  return {
    close: async () => {
      stop.abort();
      await Promise.all(shards);
      // The last acknowledgement leaves before the connection may be closed; without a server it never will.
      if (!context.nats.isClosed())
        await Promise.race([context.nats.flush(), delay(FLUSH_MS, undefined, { ref: false })]);
    },
  };
}

async function workShard(context: FeedContext, shard: number, delivery: Delivery): Promise<void> {
  const progress: Progress = { done: 0, acknowledged: 0, delivery: 0 };
  for (let failures = 0; !delivery.stopping.aborted; failures++) {
    try {
      await workWhileItLasts(context, shard, delivery, progress);
    } catch (error) {
      const fields = { consumer: delivery.consumer, failure: failureOf(error) };
      if (context.nats.isClosed())
        return context.log.error(fields, "The connection to NATS is closed: no more reactions");
      context.log.warn(fields, "Working off the ledger is interrupted and goes on");
    }
    await waited(remakeWaitMs(failures), delivery.stopping);
  }
}

async function workWhileItLasts(
  context: FeedContext,
  shard: number,
  delivery: Delivery,
  progress: Progress,
): Promise<void> {
  const pull = context.track(new Pull(context.nats, delivery.consumer));
  try {
    pull.ask(1);
    for (;;) {
      // A batch that was handled is acknowledged to its end, also when the service stops.
      const arrival = await pull.take(progress.done > progress.acknowledged ? NEVER : delivery.stopping);
      if (arrival === undefined || (arrival.type === "silent" && delivery.stopping.aborted)) return;
      if (arrival.type === "silent") {
        pull.ask(1);
        continue;
      }
      if (arrival.type === "ended") {
        if (!EXPIRED.has(arrival.code)) return context.log.warn({ ...arrival }, "A pull was refused and is made again");
        if (pull.due === 0) pull.ask(1);
        continue;
      }
      const { message } = arrival;
      const alone = message.delivery === progress.delivery + 1;
      progress.delivery = message.delivery;
      if (message.sequence > progress.done) {
        const ahead = alone ? Math.min(message.pending, BATCH_MAX - 1) : 0;
        const batch = () => readAhead(context, shard, message, ahead);
        const last = await handled(context, message, batch, delivery);
        if (last === undefined) return say(context, message, "-NAK");
        progress.done = last;
      }
      progress.acknowledged = message.sequence;
      if (delivery.stopping.aborted && progress.acknowledged >= progress.done) return say(context, message, "+ACK");
      acknowledgeAndPull(context, message, pull);
    }
  } finally {
    for (const message of context.untrack(pull) ?? []) say(context, message, "-NAK");
  }
}

function acknowledgeAndPull({ nats }: FeedContext, { ackSubject }: Pulled, pull: Pull): void {
  pull.expect(1);
  nats.publish(ackSubject, `+NXT ${pullRequest(1)}`, { reply: pull.inbox });
}

/** The last sequence of the batch, which begins with `message`; undefined when the service stops first. */
async function handled(
  context: FeedContext,
  message: Pulled,
  readBatch: () => Promise<Batch>,
  delivery: Delivery,
): Promise<number | undefined> {
  const renewing = setInterval(() => say(context, message, "+WPI"), ACK_WAIT_MS / 3);
  try {
    const batch = await readBatch();
    return (await deliverStored(context, batch, delivery)) ? batch.at(-1)?.sequence : undefined;
  } finally {
    clearInterval(renewing);
  }
}

async function readAhead({ nats }: FeedContext, shard: number, first: Pulled, ahead: number): Promise<Batch> {
  const batch: (StoredMessage & { subject: string })[] = [first];
  let last: StoredMessage = first;
  for (let bytes = first.bytes.byteLength; batch.length <= ahead && bytes < BATCH_BYTES_MAX; ) {
    const found = await nextMessage(nats, last.sequence + 1, ledgerShardSubject(shard));
    if (found === undefined) break;
    batch.push(found);
    bytes += found.bytes.byteLength;
    last = found;
  }
  return batch;
}

/** What cannot be read is parked in its place, after what stands before it. */
async function deliverStored({ blobs, recent }: FeedContext, batch: Batch, delivery: Delivery): Promise<boolean> {
  let readable: LedgerMessage[] = [];
  for (const stored of batch) {
    try {
      readable.push(await recent.decode(stored, blobs));
    } catch (error) {
      if (!(error instanceof Fatal)) throw error;
      if (!(await deliver(readable, delivery))) return false;
      readable = [];
      const session = stored.subject.split(".")[2] ?? "";
      if (!(await parkUntilRecorded(parkedOf(stored.sequence, session, error, delivery), delivery))) return false;
    }
  }
  return deliver(readable, delivery);
}

function say({ nats }: FeedContext, { ackSubject }: Pulled, word: "+ACK" | "-NAK" | "+WPI"): void {
  if (!nats.isClosed()) nats.publish(ackSubject, word);
}

/** In the stream PARKED, once per consumer and message. */
async function recordParked({ nats }: FeedContext, parked: Parked): Promise<void> {
  try {
    const subject = parkedSubject(LEDGER_STREAM, parked.consumer);
    const id = `${parked.consumer}.${parked.sequence}`;
    await nats.jetstream().publish(subject, JSONCodec<Parked>().encode(parked), { msgID: id });
  } catch (cause) {
    if (!(cause instanceof NatsError)) throw cause;
    throw unavailable(`Ledger message ${parked.sequence} could not be parked: ${cause.message}`, cause);
  }
}
