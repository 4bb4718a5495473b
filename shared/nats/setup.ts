// Makes the streams, the bucket and every durable consumer, so that no service needs the right to manage them.
// Asking again changes nothing; the ledger's own stream is never altered once it is there.
import {
  type ConsumerConfig,
  DiscardPolicy,
  type JetStreamManager,
  type NatsConnection,
  nanos,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "nats";
import { MESSAGE_BYTES_MAX } from "#schemas/ledger/envelope.ts";
import { LEASES_BUCKET, LEDGER_STREAM, PARKED_STREAM, POOL_BUCKET } from "#schemas/ledger/subjects.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { CONSUMER_NOT_FOUND, orUndefined, STREAM_NOT_FOUND } from "./absent.ts";
import { ledgerConsumerConfig } from "./ledger/consumer.ts";
import { REACTORS } from "./permissions.ts";
import { workConsumer } from "./work-consumer.ts";
import { CORE_QUEUES, EDGE_QUEUES, type WorkQueue } from "./work-queues.ts";

export const LEASE_TTL_MS_DEFAULT = 2_500;
const HEADER_BYTES_MAX = 8 * 1024;
const PARKED_MAX = 10_000;
const DUPLICATE_WINDOW_MS = 120_000;

/** Everything that the services expect to find. `core` and `edge` are connections of `setup` and `edge-setup`. */
export async function prepareNats(options: {
  core: NatsConnection;
  edge: NatsConnection;
  shards: number;
  leaseTtlMs?: number;
}): Promise<void> {
  const core = await options.core.jetstreamManager();
  const edge = await options.edge.jetstreamManager();
  await Promise.all([
    prepareLedger(core, options.shards),
    prepareLeases(core, options.leaseTtlMs ?? LEASE_TTL_MS_DEFAULT),
    ensureStream(core, bucket(POOL_BUCKET)),
    prepareWorkQueues(core, CORE_QUEUES),
    prepareParked(core),
    prepareWorkQueues(edge, EDGE_QUEUES),
    prepareParked(edge),
  ]);
}

/** That set-up was here, for this number of shards: with another one, sessions would be looked for at wrong subjects. */
export async function requireLedger(nats: NatsConnection, shards: number): Promise<void> {
  const manager = await nats.jetstreamManager({ checkAPI: false });
  const found = await findStream(manager, LEDGER_STREAM);
  if (found === undefined) {
    const next = "Run `pistis setup` with this NATS_URL, then start this again.";
    throw new Refusal("ledger_missing", "This NATS server has no ledger", { next });
  }
  if (found.description !== ledgerDescription(shards)) throw shardsFixed(found.description, shards);
}

function ledgerDescription(shards: number): string {
  return `Pistis ledger in ${shards} shards`;
}

function shardsFixed(found: string | undefined, shards: number): Refusal {
  return new Refusal("ledger_shards_fixed", `This is the "${found}", and ${shards} shards were asked for`, {
    next: "Set ledger.shards in pistis.json back to the number of the first start.",
  });
}

async function prepareLedger(manager: JetStreamManager, shards: number): Promise<void> {
  const description = ledgerDescription(shards);
  const found = await findStream(manager, LEDGER_STREAM);
  if (found === undefined) {
    await manager.streams.add({
      ...file(LEDGER_STREAM, ["ledger.*.*"], RetentionPolicy.Limits),
      description,
      max_msg_size: MESSAGE_BYTES_MAX + HEADER_BYTES_MAX,
      deny_delete: true,
      deny_purge: true,
      allow_direct: true,
    });
  } else if (found.description !== description) {
    throw shardsFixed(found.description, shards);
  }
  for (const service of REACTORS) {
    await Promise.all(
      Array.from({ length: shards }, (_, shard) =>
        ensureConsumer(manager, LEDGER_STREAM, ledgerConsumerConfig(service, shard)),
      ),
    );
  }
}

/** An entry that is not renewed vanishes after `ttlMs`. */
async function prepareLeases(manager: JetStreamManager, ttlMs: number): Promise<void> {
  const config = {
    ...bucket(LEASES_BUCKET),
    max_age: nanos(ttlMs),
    duplicate_window: nanos(Math.min(ttlMs, DUPLICATE_WINDOW_MS)),
  };
  const found = await findStream(manager, config.name);
  if (found === undefined) await manager.streams.add(config);
  else if (found.max_age !== config.max_age) await manager.streams.update(config.name, config);
}

/** A KV bucket in the layout that every NATS client knows. */
function bucket(name: string) {
  return {
    ...file(`KV_${name}`, [`$KV.${name}.>`], RetentionPolicy.Limits),
    max_msgs_per_subject: 1,
    discard: DiscardPolicy.New,
    allow_rollup_hdrs: true,
    deny_delete: true,
    allow_direct: true,
  };
}

async function prepareWorkQueues(manager: JetStreamManager, queues: readonly WorkQueue[]): Promise<void> {
  const streams = Map.groupBy(queues, ({ stream }) => stream);
  for (const [stream, own] of streams) {
    const subjects = [...new Set(own.map(({ subjects }) => subjects))];
    await ensureStream(manager, file(stream, subjects, RetentionPolicy.Workqueue));
    for (const queue of own) await ensureConsumer(manager, stream, workConsumer(queue));
  }
}

async function prepareParked(manager: JetStreamManager): Promise<void> {
  const config = file(PARKED_STREAM, ["parked.*.*"], RetentionPolicy.Limits);
  await ensureStream(manager, { ...config, max_msgs: PARKED_MAX, discard: DiscardPolicy.Old });
}

function file(name: string, subjects: string[], retention: RetentionPolicy): Partial<StreamConfig> & { name: string } {
  return { name, subjects, retention, storage: StorageType.File, duplicate_window: nanos(DUPLICATE_WINDOW_MS) };
}

async function ensureStream(
  manager: JetStreamManager,
  config: Partial<StreamConfig> & { name: string },
): Promise<void> {
  if ((await findStream(manager, config.name)) === undefined) await manager.streams.add(config);
}

async function ensureConsumer(
  manager: JetStreamManager,
  stream: string,
  config: Partial<ConsumerConfig> & { durable_name: string; max_ack_pending: number },
): Promise<void> {
  const found = await orUndefined(CONSUMER_NOT_FOUND, manager.consumers.info(stream, config.durable_name));
  if (found === undefined) await manager.consumers.add(stream, config);
  // An install of an earlier version has one message out where a batch may be.
  else if (found.config.max_ack_pending !== config.max_ack_pending) {
    await manager.consumers.update(stream, config.durable_name, { max_ack_pending: config.max_ack_pending });
  }
}

async function findStream(manager: JetStreamManager, name: string): Promise<StreamConfig | undefined> {
  return (await orUndefined(STREAM_NOT_FOUND, manager.streams.info(name)))?.config;
}
