// Finds work queues whose consumer has gone deaf or is gone, and makes that consumer anew. When the sequences of a stream
// are behind those that its consumer knows as delivered, as a killed nats-server seems to have left them (decision 0014),
// whatever is stored is never handed out, to nobody, and no restart helps. An item that came to its last delivery with a
// worker that died is left lying just the same. The process that makes a consumer anew may die before it is there again:
// its next start does it, before the workers start. A consumer that is made anew hands out all that is in the queue: work
// is done at least once anyhow.
import type { JetStreamManager, NatsConnection } from "nats";
import { failureOf } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Log } from "#shared/service/log.ts";
import { CONSUMER_NOT_FOUND, orUndefined } from "./absent.ts";
import { workConsumer } from "./work-consumer.ts";
import type { WorkQueue } from "./work-queues.ts";

const LOOK_EVERY_MS = 5_000;

type Watching = Readonly<{
  /** A user that may make these consumers anew: `scheduler` for those of CORE, `edge-scheduler` for those of EDGE. */
  nats: NatsConnection;
  queues: readonly WorkQueue[];
  log: Log;
  lookEveryMs?: number;
}>;

/** Queues that could not be looked at and were told of: each once, until a look works. */
type Told = Set<WorkQueue>;

/** What a consumer had delivered when it was seen to be deaf; twice the same, and it is made anew. */
type Deaf = Map<WorkQueue, number>;

/** Resolves after the first look: consumers that were gone are there, so that their workers can start. */
export async function watchQueues(options: Watching): Promise<{ close: () => Promise<void> }> {
  const { lookEveryMs = LOOK_EVERY_MS, ...watching } = options;
  const deaf: Deaf = new Map();
  const told: Told = new Set();
  await lookAtAll(watching, deaf, told);
  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= lookAtAll(watching, deaf, told).finally(() => {
      looking = undefined;
    });
  }, lookEveryMs);
  return {
    close: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

async function lookAtAll({ nats, queues, log }: Omit<Watching, "lookEveryMs">, deaf: Deaf, told: Told): Promise<void> {
  for (const queue of queues) {
    try {
      await look(await nats.jetstreamManager({ checkAPI: false }), queue, deaf, log);
      told.delete(queue);
    } catch (error) {
      deaf.delete(queue);
      if (told.has(queue)) continue;
      told.add(queue);
      const next = "See that nats-server runs and has the configuration of this version (pistis nats-config).";
      log.warn({ ...queue, failure: failureOf(error), next }, "A work queue cannot be looked at, trying again");
    }
  }
}

async function look(manager: JetStreamManager, queue: WorkQueue, deaf: Deaf, log: Log): Promise<void> {
  const { stream, consumer } = queue;
  const seen = await stateOf(manager, queue);
  const isSure = seen === "gone" || (seen !== undefined && deaf.get(queue) === seen);
  deaf.delete(queue);
  if (!isSure) {
    if (seen !== undefined) deaf.set(queue, seen);
    return;
  }
  const what = seen === "gone" ? "has no consumer" : "hands nothing out of what is in it";
  log.error({ stream, consumer }, `A work queue ${what}: its consumer is made anew`);
  if (seen !== "gone") await orUndefined(CONSUMER_NOT_FOUND, manager.consumers.delete(stream, consumer));
  step("scheduler.queue.renewing");
  await manager.consumers.add(stream, workConsumer(queue));
}

/** How much its consumer has delivered if it does not know of all that is stored for it; undefined when all is well. */
async function stateOf(manager: JetStreamManager, queue: WorkQueue): Promise<number | "gone" | undefined> {
  const { stream, consumer, filter } = queue;
  const info = await orUndefined(CONSUMER_NOT_FOUND, manager.consumers.info(stream, consumer));
  if (info === undefined) return "gone";
  const { state } = await manager.streams.info(stream, { subjects_filter: filter });
  const stored = Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
  const isUnknown = stored > info.num_pending + info.num_ack_pending;
  const isKept = info.num_pending > 0 && info.num_waiting > 0 && info.num_ack_pending === 0;
  return isUnknown || isKept ? info.delivered.consumer_seq : undefined;
}
