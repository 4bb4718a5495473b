import { expect } from "chai";
import { PROBES_STREAM } from "#schemas/ledger/subjects.ts";
import { newId } from "#shared/ids/ids.ts";
import { openProbeSender } from "#shared/nats/work-queue.ts";
import type { RunningService } from "#shared/service/service.ts";
import { sandboxIdOf } from "../sandbox/sandbox.ts";
import { openSchedulerWorld, type SchedulerWorld } from "../testing/scheduler-world.ts";

describe("the scheduler and the probe of a sandbox", () => {
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

  it("C117: has a sandbox that joined world.probed, and again when a turn asks for it, until it passed", async () => {
    const session = await world.openSession();
    const peer = world.probed.sandbox(sandboxIdOf(session));
    peer.outcome = "answered";
    await world.startSandbox(session);
    const { passed, findings } = (await world.untilEvent(session, "EgressProbed")).data;
    expect(passed).to.equal(false);
    expect(findings.filter(({ ok }) => !ok).map(({ target }) => target)).to.include("metadata 169.254.169.254:80");
    peer.outcome = "unreachable";
    await world.need(session, "unprobed");
    expect((await world.untilEvent(session, "EgressProbed", 2)).data).to.include({ passed: true, generation: 1 });
    await world.need(session, "unprobed");
    await world.fence(session);
    expect(peer.probes).to.equal(2);
  });

  it("C117: counts what a sandbox leaves out, does not know or answers wrongly as got through", async () => {
    for (const [answers, target] of [
      ["nothing", "outside 192.0.2.1:443 by TCP"],
      ["refusal", "the probe itself: No such request"],
      ["nonsense", "the probe itself: It broke the protocol"],
    ] as const) {
      const session = await world.openSession();
      world.probed.sandbox(sandboxIdOf(session)).answers = answers;
      await world.startSandbox(session);
      const { passed, findings } = (await world.untilEvent(session, "EgressProbed")).data;
      expect(passed).to.equal(false);
      expect(findings.map((finding) => [finding.target, finding.outcome])).to.deep.include([target, "missing"]);
    }
  });

  it("C117: hears itself that a sandbox came to a port of the server, whatever the sandbox says", async () => {
    const session = await world.openSession();
    world.probed.sandbox(sandboxIdOf(session)).visitsServer = true;
    await world.startSandbox(session);
    const { passed, findings } = (await world.untilEvent(session, "EgressProbed")).data;
    expect(passed).to.equal(false);
    expect(findings.filter(({ ok }) => !ok).map(({ target }) => target)).to.deep.equal([
      "the server's own port, as the server heard",
    ]);
  });

  it("C117: probes what a scheduler took with it when it died", async () => {
    const session = await world.openSession();
    const peer = world.probed.sandbox(sandboxIdOf(session));
    peer.outcome = "answered";
    await world.startSandbox(session);
    await world.untilEvent(session, "EgressProbed");
    peer.outcome = "unreachable";
    await scheduler.close();
    const dead = await world.nats.connect("scheduler");
    await openProbeSender({ nats: dead }).send(newId("event"), { session, generation: 1 });
    const consumer = await dead.jetstream().consumers.get(PROBES_STREAM, "scheduler");
    expect(await consumer.next()).to.not.equal(null);
    scheduler = await world.start();
    expect((await world.untilEvent(session, "EgressProbed", 2)).data).to.include({ passed: true });
  });

  it("C117: probes what could not be reached again", async () => {
    const session = await world.openSession();
    const peer = world.probed.sandbox(sandboxIdOf(session));
    peer.awayTimes = 1;
    await world.startSandbox(session);
    expect((await world.untilEvent(session, "EgressProbed")).data).to.include({ passed: true });
    expect(peer.awayTimes).to.equal(0);
  });
});
