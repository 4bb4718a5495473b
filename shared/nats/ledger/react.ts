// The durable consumers of a service: the one place where ledger messages are acknowledged, given back and parked.
//
// A shard's consumer lets one message out at a time, over all replicas (consumer.ts), so that whoever holds it
// holds the shard. More messages waiting behind it are taken into the same batch, from what this process has read
// anyway or straight from the stream; when the consumer delivers them in turn, they are acknowledged unread. Another
// replica would get some of them and handle them again, so a replica reads ahead only while nobody else takes part, which
// the consumer's own count tells. Where all who write are in this process, it holds its message for as long as others
// follow it (hold.ts). A service whose consumers let a batch out at once works differently (window.ts).
import { setTimeout as delay } from "node:timers/promises";
import { NatsError } from "nats";
import { ledgerShardSubject } from "#schemas/ledger/subjects.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { ChainWatch } from "#shared/ledger/chain-watch.ts";
import { type Parked, waited } from "#shared/ledger/delivery.ts";
import type { LedgerFeed } from "#shared/ledger/ledger.ts";
import type { SubjectMessage } from "#shared/ledger/recent.ts";
import { ACK_WAIT_MS, windowOf } from "./consumer.ts";
import { BATCH_BYTES_MAX, deliverStored, recordParked, type ShardDelivery, say } from "./hand-out.ts";
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
import { nextMessage } from "./stream-reader.ts";
import { workInWindow } from "./window.ts";

const FLUSH_MS = 2_000;
const ACKNOWLEDGE_AND_PULL = new TextEncoder().encode(`+NXT ${pullRequest(1)}`);
/** How long a stop waits for the next message of the batch in hand, and for all of them: others may have them. */
const NEXT_MS = 1_000;
const STOP_MS = ACK_WAIT_MS;
const EXPIRED = new Set([404, 408]);

type Reaction = Parameters<LedgerFeed["react"]>[0];

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
    const delivery = { consumer, handle, gatherMs, watch, park, log, ...signals };
    if (windowOf(options.consumer) > 1)
      return goOn(context, delivery, { acknowledged: 0 }, (tally) => workInWindow(context, delivery, tally));
    return goOn(context, delivery, newProgress(), (progress) => workOneByOne(context, shard, delivery, progress));
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

/** `work` ends when its pull has to be made anew. */
async function goOn<T extends { acknowledged: number }>(
  context: FeedContext,
  { consumer, stopping }: ShardDelivery,
  progress: T,
  work: (progress: T) => Promise<void>,
): Promise<void> {
  for (let failures = 0; !stopping.aborted; ) {
    const { acknowledged } = progress;
    try {
      await work(progress);
    } catch (error) {
      const fields = { consumer, failure: failureOf(error) };
      if (context.nats.isClosed())
        return context.log.error(fields, "The connection to NATS is closed: no more reactions");
      context.log.warn(fields, "Working off the ledger is interrupted and goes on");
    }
    failures = progress.acknowledged > acknowledged ? 0 : failures + 1;
    await waited(remakeWaitMs(failures), stopping);
  }
}

function newProgress(): Progress {
  return { done: 0, acknowledged: 0, delivery: 0, scanned: 0, gatherUntil: 0, ahead: new Map() };
}

async function workOneByOne(
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
