// Decides about sandboxes: what a session needs becomes a request to a provider, what providers and the relay report
// becomes facts. It runs nothing itself.
import type { ProbeSettings } from "#schemas/network/probe-settings.ts";
import type { ProviderTask, SandboxSpec } from "#schemas/provider/task.ts";
import type { ProbeTask } from "#schemas/scheduler/probe.ts";
import type { Timer } from "#schemas/scheduler/timer.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { AskNetwork } from "#shared/nats/network-questions.ts";
import type { PoolRecordStore } from "#shared/nats/pool-record.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService, Start } from "#shared/service/service.ts";
import type { ReceivedReport, WorkQueueReceiver, WorkQueueSender } from "#shared/work-queue/work-queue.ts";
import { keepDeadline } from "./deadlines.ts";
import { networkOfSandbox } from "./network.ts";
import type { PoolSettings } from "./pool/handover.ts";
import { openWarmPool } from "./pool/pool.ts";
import { type OpenProbeLink, PROBES_AT_ONCE, probeSandbox } from "./probe/prober.ts";
import { react } from "./reactions.ts";
import type { Relay } from "./relay/join-tokens.ts";
import { recordReport } from "./reports.ts";
import { openSessions } from "./sessions.ts";

export type SchedulerDependencies = Readonly<{
  /** Opened for the writer `scheduler`. */
  ledger: Ledger;
  feed: LedgerFeed;
  /** The way to each kind of provider. */
  tasks: (provider: string) => WorkQueueSender<ProviderTask>;
  reports: WorkQueueReceiver<ReceivedReport>;
  timers: Readonly<{ sender: WorkQueueSender<Timer>; receiver: WorkQueueReceiver<Timer> }>;
  probes: Readonly<{
    sender: WorkQueueSender<ProbeTask>;
    receiver: WorkQueueReceiver<ProbeTask>;
    /** `sandboxes.probe` */
    settings: ProbeSettings;
    openLink: OpenProbeLink;
  }>;
  relay: Relay;
  warm: Readonly<{ record: PoolRecordStore; settings: PoolSettings }>;
  /** Starts to answer what a sandbox may reach. */
  answerNetwork: (answer: AskNetwork) => { close: () => Promise<void> };
  /** What each new sandbox gets. */
  spec: SandboxSpec;
  /** `sandboxes.startMs`: how long a sandbox may take to start and join. */
  startMs: number;
}>;

export const startScheduler: Start<SchedulerDependencies> = async (dependencies): Promise<RunningService> => {
  const { ledger, feed, reports, timers, probes, warm, log } = dependencies;
  const sessions = openSessions(ledger);
  const resources = new Resources();
  const close = (opened: { close: () => Promise<void> }) => opened.close();
  const pool = resources.add("pool", openWarmPool({ ...dependencies, ...warm, sessions, now: Date.now }), close);
  const working = { ...dependencies, sessions, pool, timers: timers.sender, probes: probes.sender };
  const reporting = { sessions, pool, network: dependencies.spec.network, log };
  try {
    const handle = (messages: Parameters<typeof react>[1]) => react(working, messages);
    resources.add("ledger feed", await feed.react({ consumer: "scheduler", handle }), close);
    resources.add(
      "network questions",
      dependencies.answerNetwork((question) => networkOfSandbox(sessions, question)),
      close,
    );
    resources.add("reports", await reports.receive((report) => recordReport(reporting, report)), close);
    resources.add("timers", await timers.receiver.receive((timer) => keepDeadline(working, timer)), close);
    const probing = { sessions, openLink: probes.openLink, settings: probes.settings, log };
    for (let count = 1; count <= PROBES_AT_ONCE; count++) {
      resources.add("probes", await probes.receiver.receive((task) => probeSandbox(probing, task)), close);
    }
  } catch (error) {
    await resources.close();
    throw error;
  }
  return { name: "scheduler", close: () => resources.close() };
};
