import { expect } from "chai";
import { silentLog } from "#shared/service/log.ts";
import { openModels } from "../models/registry.ts";
import { World } from "../testing/world.ts";
import { openToolboxes } from "../turn/session-run.ts";
import { WarmLinks } from "../turn/warm-links.ts";
import { Dispatch } from "./dispatch.ts";

const SESSIONS = 20;
const MESSAGES = 10;

describe("which sessions a brain works on", () => {
  let world: World;
  afterEach(() => world.close());

  /** Posts the next message the instant the turn before it has ended: between its end and the lease's release. */
  async function talk(session: string): Promise<void> {
    for (let count = 0; count < MESSAGES; count++) {
      await world.post(session, `> say ${count}`);
      await world.first(session, "TurnEnded", count);
    }
  }

  for (const brains of [1, 3]) {
    it(`loses no message that races with the end of a turn, with ${brains} of them`, async () => {
      world = new World();
      for (let index = 0; index < brains; index++) await world.startBrain(`brain-${index}`);
      const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => world.createSession()));
      await Promise.all(sessions.map(talk));
      for (const session of sessions) {
        const events = await world.events(session);
        expect(events.filter(({ type }) => type === "TurnStarted")).to.have.length(MESSAGES);
        expect(events.filter(({ type }) => type === "TurnTakenOver")).to.have.length(0);
      }
      expect(world.ledger.parked).to.deep.equal([]);
    });
  }

  it("delivers a message that arrived while another brain still held the session", async () => {
    world = new World();
    const session = await world.createSession();
    const lease = await world.leases.open("brain-z").acquire(session);
    await world.startBrain();
    await world.post(session, "> say hello");
    await lease?.release();
    await world.first(session, "TurnEnded");
  });

  it("lets one held session not delay the others of its batch", async () => {
    world = new World();
    const held = await world.createSession();
    const free = await world.createSession();
    const lease = await world.leases.open("brain-z").acquire(held);
    await world.post(held, "> say held");
    await world.post(free, "> say free");
    await world.startBrain();
    await world.first(free, "TurnEnded");
    await lease?.release();
    await world.first(held, "TurnEnded");
  });

  it("lets a session that another brain holds not delay what is posted after it", async () => {
    world = new World();
    const held = await world.createSession();
    const lease = await world.leases.take(held, "brain-z");
    await world.startBrain();
    await world.post(held, "> say held");
    const free = await world.createSession();
    for (const count of [0, 1, 2]) {
      await world.post(free, "> say free");
      await world.first(free, "TurnEnded", count);
    }
    expect((await world.events(held)).map(({ type }) => type)).not.to.include("TurnStarted");
    await lease.release();
    await world.first(held, "TurnEnded");
  });

  it("forgets no message of a held session when the brain that heard of it dies", async () => {
    world = new World();
    const session = await world.createSession();
    const lease = await world.leases.take(session, "brain-z");
    const brain = await world.startBrain("brain-a");
    await world.post(session, "> say hello");
    const after = await world.createSession();
    await world.post(after, "> say after");
    // The message before this one is acknowledged, though nobody works on it.
    await world.first(after, "TurnEnded");
    await brain.close();
    await lease.release();
    await world.startBrain("brain-b");
    await world.first(session, "TurnEnded");
    expect((await world.events(session)).filter(({ type }) => type === "TurnStarted")).to.have.length(1);
  });

  it("takes over an open turn that it heard of, also when the read model knows nothing of it", async () => {
    world = new World();
    const session = await world.createSession();
    await world.post(session, "> say hello");
    const lease = await world.leases.take(session, "brain-z");
    const dispatch = openDispatch(60_000);
    const consumer = await world.ledger.feed.react({ consumer: "b", handle: (messages) => dispatch.handle(messages) });
    await world.joinSandbox(session);
    await world.leaveOpenCalls(session, 1);
    while (dispatch.kept.openTurns === 0) await nextLook();
    await dispatch.takeOverAll([]);
    expect((await world.events(session)).map(({ type }) => type)).not.to.include("TurnTakenOver");
    await lease.release();
    await dispatch.takeOverAll([]);
    await world.first(session, "TurnTakenOver");
    await world.first(session, "TurnEnded");
    await consumer.close();
    await dispatch.close();
  });

  it("keeps nothing in memory of sessions that were idle for long", async () => {
    world = new World();
    const warmLinks = new WarmLinks(20);
    const dispatch = openDispatch(20, warmLinks);
    const consumer = await world.ledger.feed.react({ consumer: "b", handle: (messages) => dispatch.handle(messages) });
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => world.createSession()));
    for (const session of sessions) await world.post(session, "$ true");
    for (const session of sessions) await world.first(session, "TurnEnded");
    while (dispatch.kept.records > 0 || warmLinks.size > 0 || dispatch.kept.running > 0) await nextLook();
    expect(dispatch.kept).to.deep.equal({ records: 0, running: 0, held: 0, openTurns: 0 });
    const [first = ""] = sessions;
    await world.post(first, "> say still here");
    await world.first(first, "TurnEnded", 1);
    await consumer.close();
    await dispatch.close();
    await warmLinks.close();
  });

  function openDispatch(warmMs: number, warmLinks = new WarmLinks(warmMs)): Dispatch {
    const { config, openLink, snapshots } = world;
    return new Dispatch({
      ledger: world.ledger.open("brain"),
      feed: world.ledger.feed,
      leases: world.leases.open("brain-a"),
      live: { publish: () => undefined },
      models: openModels(config),
      tools: openToolboxes(config),
      brain: "brain-a",
      log: silentLog,
      snapshots,
      openLink,
      warmLinks,
      config,
      warmMs,
    });
  }

  it("starts where it was: messages posted while no brain ran are worked on at the next start", async () => {
    world = new World();
    const session = await world.createSession();
    await world.post(session, "> say one");
    await world.post(session, "> say two");
    const brain = await world.startBrain();
    await world.first(session, "TurnEnded");
    await brain.close();
    await world.post(session, "> say three");
    await world.startBrain();
    await world.first(session, "TurnEnded", 1);
    expect((await world.events(session)).filter(({ type }) => type === "TurnStarted")).to.have.length(2);
  });

  it("releases the session after its turn", async () => {
    world = new World();
    const brain = await world.startBrain();
    const session = await world.createSession();
    await world.post(session, "> say one");
    await world.first(session, "TurnEnded");
    await brain.close();
    expect(world.leases.holderOf(session)).to.equal(undefined);
  });
});

function nextLook(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
