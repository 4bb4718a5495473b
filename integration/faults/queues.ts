// Work queues whose consumer is lost, as a nats-server that was killed may leave them (decision 0014).
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { ErrorCode, type NatsConnection, NatsError } from "nats";
import { Retryable } from "#shared/errors/errors.ts";
import { CONSUMER_NOT_FOUND, orUndefined } from "#shared/nats/absent.ts";
import { connectNats } from "#shared/nats/connection.ts";
import { CORE_QUEUES, EDGE_QUEUES, taskQueue, type WorkQueue } from "#shared/nats/work-queues.ts";
import type { ServiceProcesses } from "../testing/service-processes.ts";
import type { Random } from "./random.ts";

export type Queues = Readonly<{
  /** Takes the consumer of one of the queues away. Resolves with its names, or undefined when NATS was away. */
  lose: () => Promise<string | undefined>;
}>;

type Loss = Readonly<{ queue: WorkQueue; user: "scheduler" | "edge-scheduler" }>;

const ABSENT_PROVIDER = taskQueue("docker").consumer;

const LOSSES: readonly Loss[] = [
  ...CORE_QUEUES.map((queue) => ({ queue, user: "scheduler" }) as const),
  ...EDGE_QUEUES.filter(({ consumer }) => consumer !== ABSENT_PROVIDER).map(
    (queue) => ({ queue, user: "edge-scheduler" }) as const,
  ),
];

/** Only the scheduler may make consumers anew, so this goes in under its name. */
export async function openQueues({ statePath, natsUrl }: ServiceProcesses, random: Random): Promise<Queues> {
  const variables = parseEnv(await readFile(join(statePath, "env", "scheduler.env"), "utf8"));
  const seeds = {
    scheduler: variables["PISTIS_NATS_SEED"] ?? "",
    "edge-scheduler": variables["PISTIS_NATS_EDGE_SEED"] ?? "",
  };
  return {
    lose: async () => {
      const { queue, user } = random.pick(LOSSES);
      const { stream, consumer } = queue;
      try {
        await whileConnected({ url: natsUrl, user, seed: seeds[user], name: "fault injector" }, async (nats) => {
          const manager = await nats.jetstreamManager({ checkAPI: false });
          await orUndefined(CONSUMER_NOT_FOUND, manager.consumers.delete(stream, consumer));
        });
        return `${stream} of ${consumer}`;
      } catch (error) {
        if (isAway(error)) return undefined;
        throw error;
      }
    },
  };
}

async function whileConnected(
  to: Parameters<typeof connectNats>[0],
  work: (nats: NatsConnection) => Promise<void>,
): Promise<void> {
  const nats = await connectNats(to);
  try {
    await work(nats);
  } finally {
    await nats.close();
  }
}

function isAway(error: unknown): boolean {
  return error instanceof Retryable || (error instanceof NatsError && error.code !== ErrorCode.PermissionsViolation);
}
