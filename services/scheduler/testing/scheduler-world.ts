// A scheduler over a real NATS server, with a relay, providers and sandboxes that do what a test wants.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NatsConnection } from "nats";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EventOf, EventType, PistisEvent } from "#schemas/ledger/event.ts";
import { REPORTS_STREAM } from "#schemas/ledger/subjects.ts";
import type { Report, SandboxSpec } from "#schemas/provider/task.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { newId } from "#shared/ids/ids.ts";
import { handleCommand } from "#shared/ledger/handle-command.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { answerNetworkQuestions, openNetworkAsker } from "#shared/nats/network-questions.ts";
import { openPoolRecord } from "#shared/nats/pool-record.ts";
import {
  openProbeReceiver,
  openProbeSender,
  openReportReceiver,
  openReportSender,
  openTaskReceiver,
  openTaskSender,
  openTimerReceiver,
  openTimerSender,
} from "#shared/nats/work-queue.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { sandboxIdOf } from "../sandbox/sandbox.ts";
import { startScheduler } from "../scheduler.ts";
import { collectTasks } from "./collected-tasks.ts";
import { openProbedSandboxes } from "./probed-sandboxes.ts";
import { ADMIN_KEY, startTestRelay } from "./test-relay.ts";

export const spec: SandboxSpec = {
  image: null,
  memoryMiB: 512,
  cpuCores: 1,
  processesMax: 100,
  diskMiB: 100,
  network: { mode: "allow", allow: ["example.com"] },
};
export const START_MS = 60_000;

type Wait = "absent" | "stopped" | "unreachable" | "unprobed";

export type SchedulerWorld = Awaited<ReturnType<typeof openSchedulerWorld>>;

type Place = Awaited<ReturnType<typeof openPlace>>;

/** `start` starts a scheduler, which is the caller's to close; `close` ends everything else. */
export async function openSchedulerWorld() {
  const place = await openPlace();
  const { nats, resources } = place;
  return {
    ...place,
    ...actionsOn(place),
    takeReport: () => takeReport(place.edge),
    start: (startMs = START_MS) => startOne(place, startMs),
    openLedgerOf: async (writer: "scheduler"): Promise<Ledger> =>
      openLedger({ nats: await nats.connect(writer), writer, shards: nats.shards, blobs: openBlobs(tmpdir()) }),
    close: () => resources.close(),
  };
}

async function openPlace() {
  const resources = new Resources();
  const probed = openProbedSandboxes();
  const nats = resources.add("nats", await startTestNats(), (opened) => opened.close());
  const folder = await mkdtemp(join(tmpdir(), "pistis-scheduler-"));
  resources.add("blobs", folder, (path) => rm(path, { recursive: true, force: true }));
  const shared = { shards: nats.shards, blobs: openBlobs(folder) };
  const gateway = openLedger({ ...shared, nats: await nats.connect("gateway"), writer: "gateway" });
  const brainNats = await nats.connect("brain");
  const brain = openLedger({ ...shared, nats: brainNats, writer: "brain" });
  const watcher = openLedgerFeed({ ...shared, nats: brainNats, log: silentLog });
  const relay = resources.add("relay", await startTestRelay(), (opened) => opened.close());
  const provider = await nats.connect("provider-local");
  const fromProvider = openReportSender({ nats: provider, reporter: "provider-local" });
  const fromRelay = openReportSender({ nats: await nats.connect("relay"), reporter: "relay" });
  const askNetwork = openNetworkAsker({ nats: await nats.connect("egress") });
  const tasks = collectTasks();
  const receiver = openTaskReceiver({ nats: provider, provider: "local", log: silentLog });
  resources.add("tasks", await receiver.receive(async (task) => tasks.add(task)), (opened) => opened.close());
  const core = await nats.connect("scheduler");
  const edge = await nats.connect("edge-scheduler");
  return {
    resources,
    shared,
    nats,
    askNetwork,
    gateway,
    brain,
    watcher,
    fromProvider,
    fromRelay,
    relay,
    probed,
    tasks,
    core,
    edge,
  };
}

async function startOne({ shared, core, edge, probed, relay }: Place, startMs: number) {
  return startScheduler({
    ledger: openLedger({ ...shared, nats: core, writer: "scheduler" }),
    feed: openLedgerFeed({ ...shared, nats: core, log: silentLog }),
    tasks: (name) => openTaskSender({ nats: edge, provider: name }),
    reports: openReportReceiver({ nats: edge, log: silentLog }),
    timers: {
      sender: openTimerSender({ nats: core }),
      receiver: openTimerReceiver({ nats: core, log: silentLog }),
    },
    probes: {
      sender: openProbeSender({ nats: core }),
      receiver: openProbeReceiver({ nats: core, log: silentLog }),
      settings: pistisConfig.parse({}).sandboxes.probe,
      openLink: probed.openLink,
    },
    relay: { url: relay.url, adminKey: ADMIN_KEY },
    warm: {
      record: await openPoolRecord({ nats: core }),
      settings: { size: 0, ageMsMax: 60_000, provider: "local" },
    },
    answerNetwork: (answer) => answerNetworkQuestions({ nats: edge, answer, log: silentLog }),
    spec,
    startMs,
    log: silentLog,
  });
}

/** Has the next report in hand, as a scheduler that does not get to the end of it. */
async function takeReport(edge: NatsConnection) {
  const consumer = await edge.jetstream().consumers.get(REPORTS_STREAM, "scheduler");
  const report = await consumer.next({ expires: 30_000 });
  if (report === null) throw new Error("Nothing is reported");
  return {
    giveBack: () => {
      report.nak();
      return edge.flush();
    },
  };
}

/** What happens to sessions and their sandboxes, and what became of it. */
function actionsOn({ tasks, gateway, brain, watcher, fromProvider, fromRelay }: Place) {
  /** Whatever the scheduler appends meanwhile. */
  async function append(ledger: Ledger, session: string, event: PistisEvent) {
    const decider = { initialState: 0, evolve: () => 0, decide: () => [event] };
    const cause = { correlationId: "msg_1", causationId: null };
    const { appended } = await handleCommand(ledger, decider, { session, command: undefined, cause });
    if (appended === undefined) throw new Error("An event was decided");
    return appended;
  }

  async function openSession(): Promise<string> {
    const session = newId("session");
    await append(gateway, session, {
      type: "SessionCreated",
      data: { title: "t", model: "script", provider: "local" },
    });
    return session;
  }

  function need(session: string, reason: Wait) {
    return append(brain, session, { type: "SandboxNeeded", data: { turnId: "trn_1", reason } });
  }

  async function sandboxUp(): Promise<string> {
    const session = await openSession();
    await startSandbox(session);
    return session;
  }

  async function startSandbox(session: string): Promise<void> {
    await need(session, "absent");
    await tasks.of(session, "create");
    await fromRelay.send(newId("event"), joined(session, "boot-a"));
    await untilEvent(session, "SandboxJoined");
  }

  function report(session: string, state: "running" | "stopped" | "missing"): Promise<void> {
    const about = { sandboxId: sandboxIdOf(session), session, generation: 1 };
    return fromProvider.send(newId("event"), { kind: "state", ...about, state, reason: "killed" });
  }

  /** Reports are read in order, so when this one's fact (another SandboxJoined) is there all earlier ones were read. */
  async function fence(session: string): Promise<void> {
    const joins = (await typesOf(session)).filter((type) => type === "SandboxJoined").length;
    if (joins === 0) return;
    await fromRelay.send(newId("event"), joined(session, newId("event")));
    await untilEvent(session, "SandboxJoined", joins + 1);
  }

  async function typesOf(session: string): Promise<string[]> {
    return (await brain.read(session)).messages.flatMap(({ events }) => events.map(({ type }) => type));
  }

  async function bootsOf(session: string): Promise<string[]> {
    const events = (await brain.read(session)).messages.flatMap((message) => message.events);
    return events.flatMap((event) => (event.type === "SandboxJoined" ? [event.data.bootId] : []));
  }

  async function untilEvent<Type extends EventType>(session: string, type: Type, times = 1): Promise<EventOf<Type>> {
    const stop = new AbortController();
    const isIt = (event: PistisEvent): event is EventOf<Type> => event.type === type && ++seen === times;
    let seen = 0;
    for await (const message of watcher.follow({ after: 0, session, signal: stop.signal })) {
      const event = message.events.find(isIt);
      if (event !== undefined) return event;
    }
    throw new Error("The feed ended");
  }

  return { append, openSession, need, sandboxUp, startSandbox, report, fence, typesOf, bootsOf, untilEvent };
}

export function joined(session: string, bootId: string): Extract<Report, { kind: "joined" }> {
  return { kind: "joined", sandboxId: sandboxIdOf(session), generation: 1, bootId };
}
