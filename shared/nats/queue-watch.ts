// Finds work queues whose consumer has gone deaf, and makes that consumer anew. When the sequences of a stream are behind those
// that its consumer knows as delivered, as a killed nats-server seems to have left them (decision 0014), whatever is stored is
// never handed out, to nobody, and no restart helps. An item that came to its last delivery with a worker
// that died is left lying just the same. A consumer that is made anew hands out all that is in the queue: work is done at
// least once anyhow.
import { type JetStreamManager, type NatsConnection, NatsError } from "nats";
import { failureOf } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { workConsumer } from "./work-consumer.ts";
import type { WorkQueue } from "./work-queues.ts";

const LOOK_EVERY_MS = 5_000;
const CONSUMER_NOT_FOUND = 10_014;

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

export function watchQueues({ lookEveryMs = LOOK_EVERY_MS, ...watching }: Watching): { close: () => Promise<void> } {
  const deaf: Deaf = new Map();
  const told: Told = new Set();
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
  const seen = await deliveredWhileDeaf(manager, queue);
  const isSure = seen !== undefined && deaf.get(queue) === seen;
  deaf.delete(queue);
  if (!isSure) {
    if (seen !== undefined) deaf.set(queue, seen);
    return;
  }
  log.error({ stream, consumer }, "A work queue hands nothing out of what is in it: its consumer is made anew");
  await manager.consumers.delete(stream, consumer).catch(unlessNotFound);
  await manager.consumers.add(stream, workConsumer(queue));
}

/** How much its consumer has delivered, if it does not know of all that is stored for it; -1 when it is not there at all. */
async function deliveredWhileDeaf(manager: JetStreamManager, queue: WorkQueue): Promise<number | undefined> {
  const { stream, consumer, filter } = queue;
  const info = await manager.consumers.info(stream, consumer).catch(unlessNotFound);
  if (info === undefined) return -1;
  const { state } = await manager.streams.info(stream, { subjects_filter: filter });
  const stored = Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
  const isUnknown = stored > info.num_pending + info.num_ack_pending;
  const isKept = info.num_pending > 0 && info.num_waiting > 0 && info.num_ack_pending === 0;
  return isUnknown || isKept ? info.delivered.consumer_seq : undefined;
}

function unlessNotFound(error: unknown): undefined {
  if (error instanceof NatsError && error.api_error?.err_code === CONSUMER_NOT_FOUND) return undefined;
  throw error;
}
