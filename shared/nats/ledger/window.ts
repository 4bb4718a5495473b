// Working off a shard in batches that the consumer itself delivers: for a service that gains by large batches and whose
// replicas need not share a shard (consumer.ts says which). A message costs a tenth of what one by one costs.
//
// One batch may be out. JetStream would spread it over all replicas that ask, so one asks and the others stand by,
// looking now and then whether somebody still does. That is only what makes it quick. What keeps the order is that a
// replica handles a message only if everything before it is acknowledged or in its own hands: it got all that was delivered,
// by the consumer's own count, or it holds all that is out. Else it gives back what it has and stands by itself.
import { randomInt } from "node:crypto";
import { type ConsumerInfo, NatsError } from "nats";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { step } from "#shared/faults/step.ts";
import { waited } from "#shared/ledger/delivery.ts";
import { ACK_WAIT_MS } from "./consumer.ts";
import { BATCH_BYTES_MAX, deliverStored, type ShardDelivery, say } from "./hand-out.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import { type Arrival, Pull, type Pulled } from "./pull.ts";
import { unavailable } from "./stream-reader.ts";

const ASK_MS = 2_000;
/** How often one that stands by looks. */
const STAND_BY_MS = 1_000;
/** Nothing was acknowledged for so long although there is something: whoever asks for messages does not work. */
const STUCK_MS = 2 * ACK_WAIT_MS;
/** How long the rest of a batch that is on its way is waited for. */
const ARRIVE_MS = 50;
/** Until one of two that have got in each other's way gives way; at random, so that not both do. */
const SETTLE_MS = { min: 200, max: 1_000, again: 20 } as const;
const LIMITS = { bytesMax: BATCH_BYTES_MAX, expiresMs: 10_000 } as const;
/** A request is over: it expired, or it is full (409, of which the text alone tells what it is for). */
const EXPIRED = new Set([404, 408]);
const FULL = /exceeds maxbytes|batch completed/i;

type Tally = { acknowledged: number };
type Window = Readonly<{ context: FeedContext; delivery: ShardDelivery; pull: Pull; size: number }>;
/** `held`: what came and is not acknowledged, by sequence. `isMine`: nothing that is before it can be elsewhere. */
type Hand = { held: Map<number, Pulled>; last: number; isMine: boolean };

/** Ends when the service stops, or when its pull has to be made anew. */
export async function workInWindow(context: FeedContext, delivery: ShardDelivery, tally: Tally): Promise<void> {
  const size = await standBy(context, delivery);
  if (size === undefined) return;
  const pull = context.track(new Pull(context.nats, delivery.consumer));
  const hand: Hand = { held: new Map(), last: 0, isMine: false };
  try {
    const window = { context, delivery, pull, size };
    while (await gather(window, hand)) {
      if (hand.held.size === 0) continue;
      if (!(await workOff(window, hand))) return;
      step("feed.window.handled");
      for (const message of inOrder(hand)) say(context, message, "+ACK");
      tally.acknowledged = Math.max(tally.acknowledged, ...hand.held.keys());
      hand.held.clear();
    }
  } finally {
    context.untrack(pull);
    for (const message of inOrder(hand)) say(context, message, "-NAK");
    await pull.drain((message) => say(context, message, "-NAK"));
  }
}

/** False when it is not this replica's, or the service stops before it is handled. */
async function workOff(window: Window, hand: Hand): Promise<boolean> {
  const { context, delivery, pull } = window;
  const renewing = setInterval(() => renew(context, hand, pull), ACK_WAIT_MS / 3);
  try {
    return (hand.isMine || (await settle(window, hand))) && (await deliverStored(context, inOrder(hand), delivery));
  } finally {
    clearInterval(renewing);
  }
}

/** Resolves with how many messages may be out once nobody else works on the shard; undefined when the service stops. */
async function standBy(context: FeedContext, { consumer, stopping }: ShardDelivery): Promise<number | undefined> {
  let seen: { floor: number; at: number } | undefined;
  while (!stopping.aborted) {
    const { ack_floor, num_waiting, num_pending, num_ack_pending, config } = await ask(context, consumer);
    const floor = ack_floor.consumer_seq;
    const stillMs = seen?.floor === floor ? performance.now() - seen.at : 0;
    if (stillMs === 0 || num_pending + num_ack_pending === 0) seen = { floor, at: performance.now() };
    // Whoever has a whole batch in hand does not ask for more.
    const isFree = num_waiting === 0 && (num_ack_pending === 0 || stillMs > 0);
    if (isFree || stillMs > STUCK_MS) return config.max_ack_pending ?? 1;
    await waited(STAND_BY_MS, stopping);
  }
  return undefined;
}

/** Takes what is there, and waits for the first. False when the pull is over. */
async function gather({ pull, size, delivery }: Window, hand: Hand): Promise<boolean> {
  const { stopping, gatherMs } = delivery;
  if (pull.due === 0) pull.ask(size, LIMITS);
  const first = await pull.take(stopping);
  if (first === undefined || !isTaken(first, hand)) return false;
  if (first.type !== "message") return true;
  const { pending } = first.message;
  if (pending < size && !(await waited(gatherMs, stopping))) return true;
  const soon = AbortSignal.any([stopping, AbortSignal.timeout(ARRIVE_MS)]);
  const wanted = Math.min(size, pending + 1);
  while (pull.ready > 0 || (hand.held.size < wanted && pull.due > 0)) {
    const arrival = await pull.take(soon);
    if (arrival === undefined) return true;
    if (!isTaken(arrival, hand)) return false;
  }
  return true;
}

/** False when nothing more will come that can be trusted. */
function isTaken(arrival: Arrival, hand: Hand): boolean {
  if (arrival.type === "silent") return false;
  if (arrival.type === "ended") return EXPIRED.has(arrival.code) || FULL.test(arrival.description);
  const { message } = arrival;
  if (message.again || message.delivery !== hand.last + 1) hand.isMine = false;
  hand.last = message.delivery;
  hand.held.set(message.sequence, message);
  return true;
}

/** True once all that is out is in this hand. What another one holds is acknowledged, or given back, or its time is up. */
async function settle({ context, delivery, pull, size }: Window, hand: Hand): Promise<boolean> {
  const from = performance.now();
  const giveWayMs = randomInt(SETTLE_MS.min, SETTLE_MS.max);
  for (;;) {
    const { num_ack_pending, num_waiting, delivered } = await ask(context, delivery.consumer);
    for (let count = pull.ready; count > 0; count--) {
      const arrival = await pull.take(delivery.stopping);
      if (arrival === undefined || !isTaken(arrival, hand)) return false;
    }
    if (num_ack_pending === hand.held.size && delivered.consumer_seq === hand.last) {
      hand.isMine = true;
      return true;
    }
    if (pull.due === 0) pull.ask(size, LIMITS);
    const patienceMs = num_waiting > 1 ? giveWayMs : SETTLE_MS.max + ACK_WAIT_MS;
    if (performance.now() - from > patienceMs || !(await waited(SETTLE_MS.again, delivery.stopping))) return false;
  }
}

function inOrder({ held }: Hand): Pulled[] {
  return [...held.values()].sort((one, other) => one.sequence - other.sequence);
}

function renew(context: FeedContext, { held }: Hand, pull: Pull): void {
  for (const message of [...held.values(), ...pull.arrived]) say(context, message, "+WPI");
}

async function ask({ nats }: FeedContext, consumer: string): Promise<ConsumerInfo> {
  try {
    const manager = await nats.jetstreamManager({ checkAPI: false, timeout: ASK_MS });
    return await manager.consumers.info(LEDGER_STREAM, consumer);
  } catch (cause) {
    if (cause instanceof NatsError) throw unavailable(`The consumer ${consumer} does not answer`, cause);
    throw cause;
  }
}
