import { expect } from "chai";
import { Crash, type GuestRelay, startGuestRelay } from "./testing/gate.ts";
import { World } from "./testing/world.ts";

const sandboxOf = (member: string) => member.replace(/^ses_/, "sbx_");

describe("the warm pool", () => {
  let relay: GuestRelay;
  beforeEach(async () => {
    relay = await startGuestRelay();
  });
  afterEach(() => relay.close());

  const gets = (world: World, session: string) =>
    world.eventsOf(session).flatMap((event) => (event.type === "SandboxCreateRequested" ? [event.data.sandboxId] : []));

  /** What must hold whatever happened on the way. */
  function check(world: World, sessions: readonly string[]): void {
    const owned = sessions.map((session) => [...new Set(gets(world, session))]);
    for (const [index, ids] of owned.entries()) expect(ids, sessions[index]).to.have.lengthOf.at.most(1);
    expect(new Set(owned.flat()), "one session each").to.have.property("size", owned.flat().length);
    for (const member of world.members()) {
      const events = world.eventsOf(member);
      const claims = events.filter(({ type }) => type === "PoolMemberClaimed").length;
      const isRetired = events.some(({ type }) => type === "PoolMemberRetired");
      expect(claims, `claims of ${member}`).to.be.at.most(1);
      expect(isRetired && owned.flat().includes(sandboxOf(member)), `${member} deleted under its session`).to.equal(
        false,
      );
    }
  }

  /** Nothing runs but what a session has or waits in the pool. */
  function checkQuiet(world: World, sessions: readonly string[]): void {
    check(world, sessions);
    const isEnded = (session: string) => world.eventsOf(session).some(({ type }) => type === "SessionEnded");
    const theirs = sessions
      .filter((session) => !isEnded(session))
      .flatMap((session) => [...new Set(gets(world, session))]);
    const waiting = world.record.members.map(sandboxOf);
    expect([...world.guests.keys()].sort()).to.deep.equal([...theirs, ...waiting].sort());
    expect(waiting).to.have.length(world.size);
  }

  /** A scheduler that dies at its `crashAt`-th await, and one that goes on. False: it did not come that far. */
  async function survives(crashAt: number, meanwhile: (world: World, sessions: string[]) => Promise<void>) {
    const world = new World(relay);
    world.guests.clear();
    await world.workOff(world.startScheduler());
    const sessions = [await world.openSession(), await world.openSession()];
    for (const session of sessions) await world.need(session);
    const dying = world.startScheduler(crashAt);
    const died = await world.workOff(dying).then(
      () => false,
      (error: unknown) => {
        if (!(error instanceof Crash)) throw error;
        return true;
      },
    );
    check(world, sessions);
    await meanwhile(world, sessions);
    await world.workOff(world.startScheduler(), world.startScheduler());
    checkQuiet(world, sessions);
    return { died, world, sessions };
  }

  it("hands each sandbox to one session at most, and each session one, wherever its scheduler dies", async () => {
    for (let points = 0; ; points++) {
      const { died, world, sessions } = await survives(points + 1, async () => undefined);
      for (const session of sessions) expect(gets(world, session), session).to.have.length(1);
      expect(sessions.flatMap((session) => gets(world, session))).to.include(sandboxOf(world.members()[0] ?? ""));
      if (died) continue;
      expect(points).to.be.greaterThan(100);
      return;
    }
  });

  it("deletes what was claimed for a session that ended before it had it", async () => {
    const isVoid = (world: World, session: string) =>
      world
        .members()
        .flatMap((member) => world.eventsOf(member))
        .some((event) => event.type === "PoolMemberRetired" && event.data.reason.includes(session));
    let claimsVoid = 0;
    for (let points = 0; ; points++) {
      const { died, world, sessions } = await survives(points + 1, (going, [session = ""]) =>
        going.append("brain", session, { type: "SessionEnded", data: {} }),
      );
      if (isVoid(world, sessions[0] ?? "")) claimsVoid += 1;
      if (died) continue;
      expect(claimsVoid).to.be.greaterThan(0);
      return;
    }
  });

  it("gives one warm sandbox to one of two sessions whose schedulers reach for it at once", async () => {
    for (let round = 0; round < 10; round++) {
      const world = new World(relay);
      world.guests.clear();
      const schedulers = [world.startScheduler(), world.startScheduler()];
      await world.workOff(...schedulers);
      const sessions = [await world.openSession(), await world.openSession()];
      await world.need(sessions[0] ?? "");
      await world.need(sessions[1] ?? "");
      await world.workOff(...schedulers);
      checkQuiet(world, sessions);
      const [member = ""] = world.members();
      expect(
        sessions.flatMap((session) => gets(world, session)).filter((id) => id === sandboxOf(member)),
      ).to.have.length(1);
    }
  });

  it("never makes more than were asked for, with several schedulers", async () => {
    const world = new World(relay);
    world.size = 3;
    const schedulers = [world.startScheduler(), world.startScheduler(), world.startScheduler()];
    await world.workOff(...schedulers);
    expect(world.members()).to.have.length(3);
    expect(world.guests).to.have.property("size", 3);
  });

  it("hands over none that the relay does not see, and replaces one that ended", async () => {
    const world = new World(relay);
    world.guests.clear();
    const scheduler = world.startScheduler();
    await world.workOff(scheduler);
    const [member = ""] = world.members();
    const guest = world.guests.get(sandboxOf(member));
    world.guests.delete(sandboxOf(member));
    const session = await world.openSession();
    await world.need(session);
    await world.workOff(scheduler);
    expect(gets(world, session)).to.deep.equal([session.replace(/^ses_/, "sbx_")]);
    if (guest === undefined) throw new Error("It ran");
    world.guests.set(sandboxOf(member), guest);
    world.kill(sandboxOf(member));
    await world.workOff(scheduler);
    world.now += 10_000;
    await world.workOff(scheduler);
    expect(world.eventsOf(member).at(-1)?.type).to.equal("SandboxDestroyed");
    checkQuiet(world, [session]);
  });

  for (const answer of [
    { status: 502, text: "<html>Bad Gateway</html>" },
    { status: 200, text: "<html>Log in</html>" },
    { status: 200, text: '{"online":true}' },
  ]) {
    it(`has a sandbox made for the session when the relay answers ${answer.status} ${answer.text}`, async () => {
      const world = new World(relay);
      const scheduler = world.startScheduler();
      await world.workOff(scheduler);
      relay.garble(answer);
      const session = await world.openSession();
      await world.need(session);
      await world.workOff(scheduler);
      expect(gets(world, session)).to.deep.equal([sandboxOf(session)]);
    });
  }

  it("waits before it tries again when the provider fails, and does not try harder with more schedulers", async () => {
    const world = new World(relay);
    world.guests.clear();
    world.failing = true;
    const schedulers = [world.startScheduler(), world.startScheduler()];
    await world.workOff(...schedulers);
    expect(world.members()).to.have.length(1);
    world.now += 999;
    await world.workOff(...schedulers);
    expect(world.members()).to.have.length(1);
    world.now += 1;
    await world.workOff(...schedulers);
    expect(world.members()).to.have.length(2);
    expect(world.record).to.include({ failuresInRow: 2 });
    world.failing = false;
    world.now += 2_000;
    await world.workOff(...schedulers);
    expect(world.guests).to.have.property("size", 1);
  });

  it("makes nothing for itself while a session waits for a sandbox", async () => {
    const world = new World(relay);
    world.guests.clear();
    world.size = 0;
    const session = await world.openSession();
    await world.need(session);
    const without = world.startScheduler();
    world.silent = true;
    await world.workOff(without);
    world.size = 1;
    const scheduler = world.startScheduler();
    scheduler.memory.waiting.add(session);
    await world.workOff(scheduler);
    expect(world.members()).to.deep.equal([]);
    world.silent = false;
    await world.workOff(scheduler);
    expect(world.members()).to.have.length(1);
  });

  it("deletes a sandbox that lost its place with the record", async () => {
    const world = new World(relay);
    world.guests.clear();
    const scheduler = world.startScheduler();
    await world.workOff(scheduler);
    const [member = ""] = world.members();
    world.loseRecord();
    world.reportRunning(sandboxOf(member));
    await world.workOff(world.startScheduler());
    expect(world.eventsOf(member).at(-1)?.type).to.equal("SandboxDestroyed");
    checkQuiet(world, []);
  });
});
