// The durable consumers of a service: the one place where ledger messages are acknowledged, given back and parked.
//
// A shard's consumer lets one message out at a time, over all replicas (consumer.ts), so that whoever holds it
// holds the shard. More messages waiting behind it are taken into the same batch, from what this process has read
// anyway or straight from the stream; when the consumer delivers them in turn, they are acknowledged unread. Another
// replica would get some of them and handle them again, so a replica reads ahead only while nobody else takes part, which
// the consumer's own count tells. Where all who write are in this process, it holds its message for as long as others
// follow it (hold.ts).
import { setTimeout as delay } from "node:timers/promises";
import { JSONCodec, NatsError } from "nats";
import { LEDGER_STREAM, ledgerShardSubject, parkedSubject } from "#schemas/ledger/subjects.ts";
import { Fatal, failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { ChainWatch } from "#shared/ledger/chain-watch.ts";
import { type Delivery, deliver, type Parked, parkedOf, parkUntilRecorded, waited } from "#shared/ledger/delivery.ts";
import type { LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { SubjectMessage } from "#shared/ledger/recent.ts";
import { ACK_WAIT_MS } from "./consumer.ts";
import { rereadGap } from "./gap-alarm.ts";
import {
  BATCH_MAX,
  type Batch,
  type Holding,
  hold,
  noteNewBatch,
  type Progress,
  wasHandled,
  workOffKnown,
} from "./hold.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import { Pull, type Pulled, pullRequest, remakeWaitMs } from "./pull.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

/** Reading ahead stops beyond this. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const FLUSH_MS = 2_000;
const ACKNOWLEDGE_AND_PULL = new TextEncoder().encode(`+NXT ${pullRequest(1)}`);
/** How long a stop waits for the next message of the batch in hand, and for all of them: others may have them. */
const NEXT_MS = 1_000;
const STOP_MS = ACK_WAIT_MS;
const EXPIRED = new Set([404, 408]);

type Reaction = Parameters<LedgerFeed["react"]>[0];
type ShardDelivery = Delivery & Readonly<{ gatherMs: number; watch: ChainWatch; late: AbortSignal }>;

/** Works off every shard until it is closed; closing finishes the batch in hand. */
export function react(context: FeedContext, options: Reaction) {
  const [stop, late] = [new AbortController(), new AbortController()];
  const shards = Array.from({ length: context.shards }, (_, shard) => {
    const consumer = `${options.consumer}-${shard}`;
    const park = (parked: Parked) => recordParked(context, parked);
    const { log } = context;
    const { handle, gatherMs = 0 } = options;
    const watch = new ChainWatch();
    const signals = { stopping: stop.signal, late: late.signal };
    return workShard(context, shard, { consumer, handle, gatherMs, watch, park, log, ...signals });
  });
  return {
    close: async () => {
      stop.abort();
      const patience = setTimeout(() => late.abort(), STOP_MS);
      await Promise.all(shards).finally(() => clearTimeout(patience));
      // The last acknowledgement leaves before the connection may be closed; without a server it never will.
      if (!context.nats.isClosed())
        await Promise.race([context.nats.flush().catch(unlessAway), delay(FLUSH_MS, undefined, { ref: false })]);
    },
  };
}

/** What could not be acknowledged comes again. */
function unlessAway(error: unknown): void {
  if (!(error instanceof NatsError)) throw error;
}

async function workShard(context: FeedContext, shard: number, delivery: ShardDelivery): Promise<void> {
  const progress: Progress = { done: 0, acknowledged: 0, delivery: 0, scanned: 0, gatherUntil: 0, ahead: new Map() };
  for (let failures = 0; !delivery.stopping.aborted; ) {
    const { acknowledged } = progress;
    try {
      await workWhileItLasts(context, shard, delivery, progress);
    } catch (error) {
      const fields = { consumer: delivery.consumer, failure: failureOf(error) };
      if (context.nats.isClosed())
        return context.log.error(fields, "The connection to NATS is closed: no more reactions");
      context.log.warn(fields, "Working off the ledger is interrupted and goes on");
    }
    failures = progress.acknowledged > acknowledged ? 0 : failures + 1;
    await waited(remakeWaitMs(failures), delivery.stopping);
  }
}

async function workWhileItLasts(
  context: FeedContext,
  shard: number,
  delivery: ShardDelivery,
  progress: Progress,
): Promise<void> {
  const pull = context.track(new Pull(context.nats, delivery.consumer));
  try {
    pull.ask(1);
    for (;;) {
      const arrival = await nextArrival(pull, delivery, progress);
      // With another inbox, so that no request of the old one is left that takes a message and never gives it.
      if (arrival === undefined || arrival.type === "silent") return;
      if (arrival.type === "ended") {
        if (!EXPIRED.has(arrival.code)) return context.log.warn({ ...arrival }, "A pull was refused and is made again");
        if (pull.due === 0) pull.ask(1);
        continue;
      }
      const { message } = arrival;
      const alone = message.delivery === progress.delivery + 1;
      progress.delivery = message.delivery;
      const place = { shard, message, alone };
      const isHandled = await handled(context, place, delivery, progress);
      if (!isHandled) return say(context, message, "-NAK");
      step("feed.batch.handled");
      progress.ahead.delete(message.sequence);
      progress.acknowledged = message.sequence;
      if (delivery.stopping.aborted && progress.acknowledged >= progress.done) return say(context, message, "+ACK");
      acknowledgeAndPull(context, message, pull);
    }
  } finally {
    context.untrack(pull);
    await pull.drain((message) => say(context, message, "-NAK"));
  }
}

/** A batch that was handled is acknowledged to its end also when the service stops, unless other replicas have the rest. */
async function nextArrival(pull: Pull, { stopping, late }: ShardDelivery, progress: Progress) {
  const arrival = await pull.take(stopping);
  if (arrival !== undefined || progress.acknowledged >= progress.done) return arrival;
  return pull.take(AbortSignal.any([late, AbortSignal.timeout(NEXT_MS)]));
}

function acknowledgeAndPull({ nats }: FeedContext, { ackSubject }: Pulled, pull: Pull): void {
  pull.expect(1);
  nats.publish(ackSubject, ACKNOWLEDGE_AND_PULL, { reply: pull.inbox });
}

type Place = Readonly<{ shard: number; message: Pulled; alone: boolean }>;

/** False when the service stops before the message is handled. */
async function handled(context: FeedContext, place: Place, delivery: ShardDelivery, progress: Progress) {
  const { shard, message, alone } = place;
  const renewing = setInterval(() => say(context, message, "+WPI"), ACK_WAIT_MS / 3);
  const holds = alone && context.recent.hearsAll;
  try {
    if (wasHandled(progress, message)) {
      // What comes while the consumer is moved on does not wait until it has arrived.
      if (holds) await workOffKnown(holding(context, shard, delivery), progress);
      return true;
    }
    const batch = alone ? await readAhead(context, shard, message, delivery) : [message];
    if (!(await deliverStored(context, batch, delivery))) return false;
    noteNewBatch(progress, batch);
    if (holds) await hold(holding(context, shard, delivery), progress);
    return true;
  } finally {
    clearInterval(renewing);
  }
}

function holding(context: FeedContext, shard: number, delivery: ShardDelivery): Holding {
  const { gatherMs, stopping } = delivery;
  const { recent } = context;
  return { recent, shard, gatherMs, stopping, deliver: (batch) => deliverStored(context, batch, delivery) };
}

/** What came since `first` was delivered is taken only if this process has read it anyway. */
async function readAhead(
  { nats, recent }: FeedContext,
  shard: number,
  first: Pulled,
  { gatherMs, stopping }: ShardDelivery,
): Promise<Batch> {
  if (gatherMs > 0 && first.pending < BATCH_MAX) await waited(gatherMs, stopping);
  const subject = ledgerShardSubject(shard);
  const batch: SubjectMessage[] = [first];
  let last: SubjectMessage = first;
  for (let bytes = first.bytes.byteLength; batch.length < BATCH_MAX && bytes < BATCH_BYTES_MAX; ) {
    const found =
      recent.following(last.sequence, subject.slice(0, -1)) ??
      (batch.length <= first.pending ? await nextMessage(nats, last.sequence + 1, subject) : undefined);
    if (found === undefined) break;
    batch.push(found);
    bytes += found.bytes.byteLength;
    last = found;
  }
  return batch;
}

/** What cannot be read is parked in its place, after what stands before it. */
async function deliverStored(context: FeedContext, batch: Batch, delivery: ShardDelivery): Promise<boolean> {
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
