import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import type { EventOf, EventType, PistisEvent } from "#schemas/ledger/event.ts";
import { PROBES_STREAM } from "#schemas/ledger/subjects.ts";
import type { ProviderTask, Report, SandboxSpec } from "#schemas/provider/task.ts";
import { joinTokenRegistration, relayPaths } from "#schemas/wire/relay-http.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { newId, sha256 } from "#shared/ids/ids.ts";
import { handleCommand } from "#shared/ledger/handle-command.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { type AskNetwork, answerNetworkQuestions, openNetworkAsker } from "#shared/nats/network-questions.ts";
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
import type { RunningService } from "#shared/service/service.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import type { WorkQueueSender } from "#shared/work-queue/work-queue.ts";
import { sandboxIdOf } from "./sandbox/sandbox.ts";
import { startScheduler } from "./scheduler.ts";
import { openProbedSandboxes } from "./testing/probed-sandboxes.ts";

const spec: SandboxSpec = {
  image: null,
  memoryMiB: 512,
  cpuCores: 1,
  processesMax: 100,
  diskMiB: 100,
  network: { mode: "allow", allow: ["example.com"] },
};
const START_MS = 60_000;
const ADMIN_KEY = "a-key-for-the-test";

describe("the scheduler", () => {
  const resources = new Resources();
  let nats: TestNats;
  let askNetwork: AskNetwork;
  let gateway: Ledger;
  let brain: Ledger;
  let watcher: LedgerFeed;
  let fromProvider: WorkQueueSender<Report>;
  let fromRelay: WorkQueueSender<Report>;
  let relay: TestRelay;
  const probed = openProbedSandboxes();
  let tasks: Tasks;
  let scheduler: RunningService;
  let start: (startMs?: number) => Promise<RunningService>;

  before(async () => {
    nats = resources.add("nats", await startTestNats(), (opened) => opened.close());
    const folder = await mkdtemp(join(tmpdir(), "pistis-scheduler-"));
    resources.add("blobs", folder, (path) => rm(path, { recursive: true, force: true }));
    const shared = { shards: nats.shards, blobs: openBlobs(folder) };
    gateway = openLedger({ ...shared, nats: await nats.connect("gateway"), writer: "gateway" });
    const brainNats = await nats.connect("brain");
    brain = openLedger({ ...shared, nats: brainNats, writer: "brain" });
    watcher = openLedgerFeed({ ...shared, nats: brainNats, log: silentLog });
    relay = resources.add("relay", await startTestRelay(), (opened) => opened.close());
    const provider = await nats.connect("provider-local");
    fromProvider = openReportSender({ nats: provider, reporter: "provider-local" });
    fromRelay = openReportSender({ nats: await nats.connect("relay"), reporter: "relay" });
    askNetwork = openNetworkAsker({ nats: await nats.connect("egress") });
    tasks = collectTasks();
    const receiver = openTaskReceiver({ nats: provider, provider: "local", log: silentLog });
    resources.add("tasks", await receiver.receive(async (task) => tasks.add(task)), (opened) => opened.close());
    const core = await nats.connect("scheduler");
    const edge = await nats.connect("edge-scheduler");
    start = async (startMs = START_MS) =>
      startScheduler({
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
    scheduler = await start();
  });
  after(async () => {
    await scheduler.close();
    await resources.close();
  });

  it("turns a need into a task whose join token only the relay can check", async () => {
    const session = await openSession();
    await need(session, "absent");
    const task = await tasks.of(session, "create");
    expect(task).to.include({ op: "create", session, sandboxId: sandboxIdOf(session), generation: 1 });
    if (task.op !== "create") throw new Error("not reached");
    expect(task.spec).to.deep.equal(spec);
    const registered = relay.registrations.find(({ sandboxId }) => sandboxId === task.sandboxId);
    expect(registered).to.deep.include({ generation: 1, tokenHash: sha256(task.join.token) });
    expect(registered?.expiresAt).to.equal(task.join.expiresAt);
  });

  it("S60: tells what a sandbox may reach, by its sandbox and generation in the ledger", async () => {
    const session = await openSession();
    const sandboxId = sandboxIdOf(session);
    expect(await askNetwork({ sandboxId, generation: 1 })).to.equal(undefined);
    await need(session, "absent");
    await tasks.of(session, "create");
    expect(await askNetwork({ sandboxId, generation: 1 })).to.deep.equal(spec.network);
    expect(await askNetwork({ sandboxId, generation: 2 })).to.equal(undefined);
    expect(await askNetwork({ sandboxId: newId("sandbox"), generation: 1 })).to.equal(undefined);
  });

  it("makes facts of reports, each once, and says what caused them", async () => {
    const session = await openSession();
    const { id } = await need(session, "absent");
    const { taskId, ...task } = await tasks.of(session, "create");
    const about = { sandboxId: task.sandboxId, session, generation: 1 };
    for (const copy of ["1", "2"]) {
      await fromProvider.send(`${taskId}-${copy}`, { kind: "created", ...about, taskId, durationMs: 5 });
      await fromRelay.send(`${taskId}-joined-${copy}`, joined(session, "boot-a"));
    }
    await untilEvent(session, "SandboxJoined");
    await fence(session);
    const { messages } = await brain.read(session);
    const types = messages.flatMap(({ events }) => events.map(({ type }) => type));
    expect(types.filter((type) => type.startsWith("Sandbox"))).to.deep.equal([
      "SandboxNeeded",
      "SandboxCreateRequested",
      "SandboxCreated",
      "SandboxJoined",
      "SandboxJoined",
    ]);
    const requested = messages.find(({ events }) => events[0]?.type === "SandboxCreateRequested");
    expect(requested).to.include({ causationId: id, correlationId: "msg_1" });
    expect(messages.at(-1)).to.include({ causationId: requested?.id, correlationId: "msg_1" });
  });

  it("drops reports about sandboxes that nobody asked for and of other generations", async () => {
    const session = await sandboxUp();
    const stranger = newId("session");
    await fromRelay.send(newId("event"), joined(stranger, "boot-x"));
    await fromRelay.send(newId("event"), { ...joined(session, "boot-y"), generation: 7 });
    await fence(session);
    expect((await brain.read(stranger)).messages).to.deep.equal([]);
    expect(await typesOf(session)).to.not.include("SandboxFailed");
    expect((await typesOf(session)).filter((type) => type === "SandboxJoined")).to.have.length(2);
  });

  it("C4: asks the provider about a sandbox that cannot be reached, and restarts it when it stopped", async () => {
    const session = await sandboxUp();
    await need(session, "unreachable");
    await tasks.of(session, "inspect");
    await report(session, "stopped");
    const task = await tasks.of(session, "restart");
    expect(task).to.include({ generation: 1 });
    await fromRelay.send(newId("event"), joined(session, "boot-b"));
    await untilEvent(session, "SandboxJoined", 2);
    expect(await typesOf(session)).to.include.members(["SandboxStopped", "SandboxRestartRequested"]);
  });

  it("replaces a sandbox only when the provider says that it is gone (I8)", async () => {
    const session = await sandboxUp();
    await need(session, "unreachable");
    await tasks.of(session, "inspect");
    await report(session, "running");
    await fence(session);
    expect(await typesOf(session)).to.not.include("SandboxMissing");
    await need(session, "unreachable");
    await tasks.of(session, "inspect", 2);
    await report(session, "missing");
    const task = await tasks.of(session, "create", 2);
    expect(task).to.include({ generation: 2, sandboxId: sandboxIdOf(session) });
    expect(relay.registrations.at(-1)).to.include({ sandboxId: sandboxIdOf(session), generation: 2 });
  });

  it("deletes the sandbox of a session that ended and takes its pass away (S24)", async () => {
    const session = await sandboxUp();
    await append(brain, session, { type: "SessionEnded", data: {} });
    const task = await tasks.of(session, "destroy");
    const { taskId, sandboxId, generation } = task;
    await fromProvider.send(taskId, { kind: "destroyed", session, sandboxId, generation, taskId });
    await untilEvent(session, "SandboxDestroyed");
    await relay.revoked(sandboxId);
  });

  it("C117: has a sandbox that joined probed, and again when a turn asks for it, until it passed", async () => {
    const session = await openSession();
    const peer = probed.sandbox(sandboxIdOf(session));
    peer.outcome = "answered";
    await startSandbox(session);
    const { passed, findings } = (await untilEvent(session, "EgressProbed")).data;
    expect(passed).to.equal(false);
    expect(findings.filter(({ ok }) => !ok).map(({ target }) => target)).to.include("metadata 169.254.169.254:80");
    peer.outcome = "unreachable";
    await need(session, "unprobed");
    expect((await untilEvent(session, "EgressProbed", 2)).data).to.include({ passed: true, generation: 1 });
    await need(session, "unprobed");
    await fence(session);
    expect(peer.probes).to.equal(2);
  });

  it("C117: counts what a sandbox leaves out, does not know or answers wrongly as got through", async () => {
    for (const [answers, target] of [
      ["nothing", "outside 192.0.2.1:443 by TCP"],
      ["refusal", "the probe itself: No such request"],
      ["nonsense", "the probe itself: It broke the protocol"],
    ] as const) {
      const session = await openSession();
      probed.sandbox(sandboxIdOf(session)).answers = answers;
      await startSandbox(session);
      const { passed, findings } = (await untilEvent(session, "EgressProbed")).data;
      expect(passed).to.equal(false);
      expect(findings.map((finding) => [finding.target, finding.outcome])).to.deep.include([target, "missing"]);
    }
  });

  it("C117: hears itself that a sandbox came to a port of the server, whatever the sandbox says", async () => {
    const session = await openSession();
    probed.sandbox(sandboxIdOf(session)).visitsServer = true;
    await startSandbox(session);
    const { passed, findings } = (await untilEvent(session, "EgressProbed")).data;
    expect(passed).to.equal(false);
    expect(findings.filter(({ ok }) => !ok).map(({ target }) => target)).to.deep.equal([
      "the server's own port, as the server heard",
    ]);
  });

  it("C117: probes what a scheduler took with it when it died", async () => {
    const session = await openSession();
    const peer = probed.sandbox(sandboxIdOf(session));
    peer.outcome = "answered";
    await startSandbox(session);
    await untilEvent(session, "EgressProbed");
    peer.outcome = "unreachable";
    await scheduler.close();
    const dead = await nats.connect("scheduler");
    await openProbeSender({ nats: dead }).send(newId("event"), { session, generation: 1 });
    const consumer = await dead.jetstream().consumers.get(PROBES_STREAM, "scheduler");
    expect(await consumer.next()).to.not.equal(null);
    scheduler = await start();
    expect((await untilEvent(session, "EgressProbed", 2)).data).to.include({ passed: true });
  });

  it("C117: probes what could not be reached again", async () => {
    const session = await openSession();
    const peer = probed.sandbox(sandboxIdOf(session));
    peer.awayTimes = 1;
    await startSandbox(session);
    expect((await untilEvent(session, "EgressProbed")).data).to.include({ passed: true });
    expect(peer.awayTimes).to.equal(0);
  });

  it("C43: gives a start up when its time is over, also when the scheduler was restarted meanwhile", async () => {
    await scheduler.close();
    scheduler = await start(300);
    const session = await openSession();
    await need(session, "absent");
    await tasks.of(session, "create");
    await scheduler.close();
    scheduler = await start();
    const failed = await untilEvent(session, "SandboxFailed");
    expect(failed.data.failure).to.include({ code: "provider_silent" }).and.to.have.property("next");
  });

  it("sends what was asked for while no scheduler ran, and a request that was never carried out", async () => {
    await scheduler.close();
    const [one, other] = [await openSession(), await openSession()];
    await need(one, "absent");
    await need(other, "absent");
    const schedulerLedger = openLedgerOf("scheduler");
    const taskId = newId("task");
    const asked = { sandboxId: sandboxIdOf(other), generation: 1, provider: "local", taskId };
    await append(await schedulerLedger, other, {
      type: "SandboxCreateRequested",
      data: { ...asked, network: { mode: "none" } },
    });
    scheduler = await start();
    expect(await tasks.of(one, "create")).to.include({ generation: 1 });
    expect(await tasks.of(other, "create")).to.include({ taskId });
    await fence(other);
    expect((await typesOf(other)).filter((type) => type === "SandboxCreateRequested")).to.have.length(1);
  });

  it("waits for a relay that does not answer and goes on when it does", async () => {
    relay.failNext(2);
    const session = await openSession();
    await need(session, "absent");
    expect(await tasks.of(session, "create")).to.include({ session });
    expect(relay.failuresLeft()).to.equal(0);
  });

  async function openLedgerOf(writer: "scheduler"): Promise<Ledger> {
    const connection = await nats.connect(writer);
    return openLedger({ nats: connection, writer, shards: nats.shards, blobs: openBlobs(tmpdir()) });
  }

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

  function need(session: string, reason: "absent" | "stopped" | "unreachable" | "unprobed") {
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
});

function joined(session: string, bootId: string): Extract<Report, { kind: "joined" }> {
  return { kind: "joined", sandboxId: sandboxIdOf(session), generation: 1, bootId };
}

type Tasks = ReturnType<typeof collectTasks>;

/** `of` resolves with the nth task of that kind for the session, now or when it comes. */
function collectTasks() {
  const all: ProviderTask[] = [];
  const looking = new Set<() => void>();
  const find = (session: string, op: ProviderTask["op"], nth: number) =>
    all.filter((task) => task.session === session && task.op === op)[nth - 1];
  return {
    add(task: ProviderTask): void {
      all.push(task);
      for (const look of looking) look();
    },
    of(session: string, op: ProviderTask["op"], nth = 1): Promise<ProviderTask> {
      const { promise, resolve } = Promise.withResolvers<ProviderTask>();
      const look = () => {
        const found = find(session, op, nth);
        if (found === undefined) return;
        looking.delete(look);
        resolve(found);
      };
      looking.add(look);
      look();
      return promise;
    },
  };
}

type TestRelay = Awaited<ReturnType<typeof startTestRelay>>;

/** The two admin endpoints that the scheduler uses, over real HTTP. */
async function startTestRelay() {
  const registrations: ReturnType<typeof joinTokenRegistration.parse>[] = [];
  const revoked = new Map<string, PromiseWithResolvers<void>>();
  const revocation = (sandboxId: string) => {
    const known = revoked.get(sandboxId) ?? Promise.withResolvers<void>();
    revoked.set(sandboxId, known);
    return known;
  };
  let failures = 0;
  const answer = async (request: IncomingMessage): Promise<number> => {
    if (request.headers.authorization !== `Bearer ${ADMIN_KEY}`) return 401;
    if (failures > 0) {
      failures -= 1;
      return 503;
    }
    if (request.method === "DELETE") {
      revocation(request.url?.split("/").at(-1) ?? "").resolve();
      return 204;
    }
    if (request.url !== relayPaths.joinTokens) return 404;
    registrations.push(joinTokenRegistration.parse(JSON.parse((await request.toArray()).join(""))));
    return 204;
  };
  const server: Server = createServer((request, response) => {
    void answer(request).then((status) => response.writeHead(status).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    registrations,
    revoked: (sandboxId: string) => revocation(sandboxId).promise,
    failNext: (count: number) => {
      failures = count;
    },
    failuresLeft: () => failures,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
