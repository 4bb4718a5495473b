import { expect } from "chai";
import { World } from "../testing/world.ts";

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
