import { expect } from "chai";
import { newId, sha256 } from "#shared/ids/ids.ts";
import type { RunningService } from "#shared/service/service.ts";
import { sandboxIdOf } from "./sandbox/sandbox.ts";
import { joined, openSchedulerWorld, type SchedulerWorld, START_MS, spec } from "./testing/scheduler-world.ts";

describe("the scheduler", () => {
  let world: SchedulerWorld;
  let scheduler: RunningService;

  before(async () => {
    world = await openSchedulerWorld();
    scheduler = await world.start();
  });
  after(async () => {
    await scheduler.close();
    await world.close();
  });

  it("turns a need into a task whose join token only the relay can check", async () => {
    const session = await world.openSession();
    await world.need(session, "absent");
    const task = await world.tasks.of(session, "create");
    expect(task).to.include({ op: "create", session, sandboxId: sandboxIdOf(session), generation: 1 });
    if (task.op !== "create") throw new Error("not reached");
    expect(task.spec).to.deep.equal(spec);
    const registered = world.relay.registrations.find(({ sandboxId }) => sandboxId === task.sandboxId);
    expect(registered).to.deep.include({ generation: 1, tokenHash: sha256(task.join.token) });
    expect(registered?.expiresAt).to.equal(task.join.expiresAt);
  });

  it("I7: lets no task begin a life after its request was given up", async () => {
    const session = await world.openSession();
    await world.need(session, "absent");
    const task = await world.tasks.of(session, "create");
    if (task.op !== "create") throw new Error("not reached");
    expect(Date.parse(task.join.expiresAt)).to.be.at.most(Date.now() + START_MS);
  });

  it("S60: tells what a sandbox may reach, by its sandbox and generation in the ledger", async () => {
    const session = await world.openSession();
    const sandboxId = sandboxIdOf(session);
    expect(await world.askNetwork({ sandboxId, generation: 1 })).to.equal(undefined);
    await world.need(session, "absent");
    await world.tasks.of(session, "create");
    expect(await world.askNetwork({ sandboxId, generation: 1 })).to.deep.equal(spec.network);
    expect(await world.askNetwork({ sandboxId, generation: 2 })).to.equal(undefined);
    expect(await world.askNetwork({ sandboxId: newId("sandbox"), generation: 1 })).to.equal(undefined);
  });

  it("makes facts of reports, each once, and says what caused them", async () => {
    const session = await world.openSession();
    const { id } = await world.need(session, "absent");
    const { taskId, ...task } = await world.tasks.of(session, "create");
    const about = { sandboxId: task.sandboxId, session, generation: 1 };
    for (const copy of ["1", "2"]) {
      await world.fromProvider.send(`${taskId}-${copy}`, { kind: "created", ...about, taskId, durationMs: 5 });
      await world.fromRelay.send(`${taskId}-joined-${copy}`, joined(session, "boot-a"));
    }
    await world.untilEvent(session, "SandboxJoined");
    await world.fence(session);
    const { messages } = await world.brain.read(session);
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
    const session = await world.sandboxUp();
    const stranger = newId("session");
    await world.fromRelay.send(newId("event"), joined(stranger, "boot-x"));
    await world.fromRelay.send(newId("event"), { ...joined(session, "boot-y"), generation: 7 });
    await world.fence(session);
    expect((await world.brain.read(stranger)).messages).to.deep.equal([]);
    expect(await world.typesOf(session)).to.not.include("SandboxFailed");
    expect((await world.typesOf(session)).filter((type) => type === "SandboxJoined")).to.have.length(2);
  });

  it("names the newest start of pistisd, also when another scheduler died with the report of an earlier one", async () => {
    const session = await world.openSession();
    await world.need(session, "absent");
    await world.tasks.of(session, "create");
    await scheduler.close();
    await world.fromRelay.send(newId("event"), joined(session, "boot-a"));
    const inHand = await world.takeReport();
    scheduler = await world.start();
    await world.fromRelay.send(newId("event"), joined(session, "boot-b"));
    await world.untilEvent(session, "SandboxJoined");
    await inHand.giveBack();
    await world.fence(session);
    expect(await world.bootsOf(session))
      .to.have.length(2)
      .and.to.include("boot-b")
      .and.not.to.include("boot-a");
  });

  it("C4: asks the provider about a sandbox that cannot be reached, and restarts it when it stopped", async () => {
    const session = await world.sandboxUp();
    await world.need(session, "unreachable");
    await world.tasks.of(session, "inspect");
    await world.report(session, "stopped");
    const task = await world.tasks.of(session, "restart");
    expect(task).to.include({ generation: 1 });
    await world.fromRelay.send(newId("event"), joined(session, "boot-b"));
    await world.untilEvent(session, "SandboxJoined", 2);
    expect(await world.typesOf(session)).to.include.members(["SandboxStopped", "SandboxRestartRequested"]);
  });

  it("replaces a sandbox only when the provider says that it is gone (I8)", async () => {
    const session = await world.sandboxUp();
    await world.need(session, "unreachable");
    await world.tasks.of(session, "inspect");
    await world.report(session, "running");
    await world.fence(session);
    expect(await world.typesOf(session)).to.not.include("SandboxMissing");
    await world.need(session, "unreachable");
    await world.tasks.of(session, "inspect", 2);
    await world.report(session, "missing");
    const task = await world.tasks.of(session, "create", 2);
    expect(task).to.include({ generation: 2, sandboxId: sandboxIdOf(session) });
    expect(world.relay.registrations.at(-1)).to.include({ sandboxId: sandboxIdOf(session), generation: 2 });
  });

  it("deletes the sandbox of a session that ended and takes its pass away (S24)", async () => {
    const session = await world.sandboxUp();
    await world.append(world.brain, session, { type: "SessionEnded", data: {} });
    const task = await world.tasks.of(session, "destroy");
    const { taskId, sandboxId, generation } = task;
    await world.fromProvider.send(taskId, { kind: "destroyed", session, sandboxId, generation, taskId });
    await world.untilEvent(session, "SandboxDestroyed");
    await world.relay.revoked(sandboxId);
  });

  it("C43: gives a start up when its time is over, also when the scheduler was restarted meanwhile", async () => {
    await scheduler.close();
    scheduler = await world.start(300);
    const session = await world.openSession();
    await world.need(session, "absent");
    await world.tasks.of(session, "create");
    await scheduler.close();
    scheduler = await world.start();
    const failed = await world.untilEvent(session, "SandboxFailed");
    expect(failed.data.failure).to.include({ code: "provider_silent" }).and.to.have.property("next");
  });

  it("sends what was asked for while no scheduler ran, and a request that was never carried out", async () => {
    await scheduler.close();
    const [one, other] = [await world.openSession(), await world.openSession()];
    await world.need(one, "absent");
    await world.need(other, "absent");
    const schedulerLedger = world.openLedgerOf("scheduler");
    const taskId = newId("task");
    const asked = { sandboxId: sandboxIdOf(other), generation: 1, provider: "local", taskId };
    await world.append(await schedulerLedger, other, {
      type: "SandboxCreateRequested",
      data: { ...asked, network: { mode: "none" } },
    });
    scheduler = await world.start();
    expect(await world.tasks.of(one, "create")).to.include({ generation: 1 });
    expect(await world.tasks.of(other, "create")).to.include({ taskId });
    await world.fence(other);
    expect((await world.typesOf(other)).filter((type) => type === "SandboxCreateRequested")).to.have.length(1);
  });

  it("waits for a relay that does not answer and goes on when it does", async () => {
    world.relay.failNext(2);
    const session = await world.openSession();
    await world.need(session, "absent");
    expect(await world.tasks.of(session, "create")).to.include({ session });
    expect(world.relay.failuresLeft()).to.equal(0);
  });
});
