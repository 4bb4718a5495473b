// What the scheduler stands on, opened from what it may hold: a connection to each NATS account.
import { DEFAULT_PROVIDER, type PistisConfig } from "#schemas/config/pistis-config.ts";
import { networkOf } from "#schemas/network/sandbox-network.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import type { DatabasePool } from "#shared/database/pool.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { type NatsAccess, openLedgerAndFeed, openNats } from "#shared/nats/access.ts";
import { answerNetworkQuestions } from "#shared/nats/network-questions.ts";
import { openPoolRecord } from "#shared/nats/pool-record.ts";
import { watchQueues } from "#shared/nats/queue-watch.ts";
import {
  openProbeReceiver,
  openProbeSender,
  openReportReceiver,
  openTaskSender,
  openTimerReceiver,
  openTimerSender,
} from "#shared/nats/work-queue.ts";
import { CORE_QUEUES, EDGE_QUEUES } from "#shared/nats/work-queues.ts";
import { linkAccess, openRelayLinks, type RelayAccess } from "#shared/sandbox-link/relay-link.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { startScheduler } from "./scheduler.ts";

export type SchedulerParts = Readonly<{
  config: Pick<PistisConfig, "ledger" | "sandboxes">;
  nats: NatsAccess;
  edgeNats: NatsAccess;
  database: Pick<DatabasePool, "pool">;
  blobs: Blobs;
  /** Shared by the services of one process. */
  recent?: RecentMessages | undefined;
  relay: RelayAccess;
  log: Log;
}>;

/** A sandbox that went away during its probe is asked anew, by the task that comes again. */
const PROBE_REATTACH_MS = 2_000;

/** Closed with `resources`. */
export async function openScheduler(parts: SchedulerParts, resources: Resources): Promise<void> {
  const { config, database, blobs, recent, relay, log } = parts;
  const [nats, edge] = await Promise.all([
    openNats(parts.nats, "scheduler", resources),
    openNats(parts.edgeNats, "edge-scheduler", resources),
  ]);
  const { shards } = config.ledger;
  const {
    image = null,
    memoryMiB,
    cpuCores,
    processesMax,
    diskMiB,
    startMs,
    provider = DEFAULT_PROVIDER,
    warm,
    warmAgeMsMax,
  } = config.sandboxes;
  const mirror = mirrorReader(database);
  const ledger = await openLedgerAndFeed({ nats, writer: "scheduler", shards, blobs, mirror, recent, log });
  // Before the workers: they cannot start on a queue whose consumer is gone.
  for (const watching of [
    { nats, queues: CORE_QUEUES, log },
    { nats: edge, queues: EDGE_QUEUES, log },
  ]) {
    resources.add("queue watch", await watchQueues(watching), ({ close }) => close());
  }
  const scheduler = await startScheduler({
    ...ledger,
    tasks: (provider) => openTaskSender({ nats: edge, provider }),
    reports: openReportReceiver({ nats: edge, log }),
    probes: {
      sender: openProbeSender({ nats }),
      receiver: openProbeReceiver({ nats, log }),
      settings: config.sandboxes.probe,
      openLink: openRelayLinks({ ...linkAccess(relay), reattachMs: PROBE_REATTACH_MS, log }),
    },
    timers: { sender: openTimerSender({ nats }), receiver: openTimerReceiver({ nats, log }) },
    answerNetwork: (answer) => answerNetworkQuestions({ nats: edge, answer, log }),
    relay: { url: relay.url, adminKey: relay.key },
    warm: {
      record: await openPoolRecord({ nats }),
      settings: { size: warm, ageMsMax: warmAgeMsMax, provider },
    },
    spec: { image, memoryMiB, cpuCores, processesMax, diskMiB, network: networkOf(config.sandboxes) },
    startMs,
    log,
  });
  resources.add("scheduler", scheduler, ({ close }) => close());
}
