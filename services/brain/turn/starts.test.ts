import { expect } from "chai";
import type { EventType, PistisEvent } from "#schemas/ledger/event.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { World, type WorldOptions } from "../testing/world.ts";

/** Calls start in three ways: `events` is what their one append holds. */
const WAYS = [
  {
    name: "in one append with the reply, as the sandbox was ready",
    text: "$ true",
    isWarm: true,
    events: ["ModelReplied", "ToolStarted"],
  },
  { name: "alone, as the sandbox came later", text: "$ true", isWarm: false, events: ["ToolStarted"] },
  {
    name: "in one append with the end of the call before",
    text: "$ true\n& $ true",
    isWarm: true,
    events: ["ToolDone", "ToolStarted"],
  },
] as const;

describe("the start of a call", () => {
  let world: World;
  afterEach(() => world.close());

  for (const { name, text, isWarm, events } of WAYS) {
    const before = events[0] === "ToolDone" ? 1 : 0;

    it(`I1: no byte of a command leaves before its ToolStarted is stored (${name})`, async () => {
      const { session, gate } = await begun({ text, isWarm, events });
      await gate.asked.promise;
      const peer = await world.peerOf(session);
      const commands = () => peer.received.filter(({ op }) => op === "exec");
      await settled();
      expect(commands()).to.have.length(before);
      gate.held.resolve();
      await world.first(session, "TurnEnded");
      expect(commands()).to.have.length(before + 1);
    });

    it(`C63: a Stop that is stored while the start is on its way wins: the call never leaves (${name})`, async () => {
      const { session, gate } = await begun({ text, isWarm, events });
      await gate.asked.promise;
      await world.interrupt(session);
      gate.held.resolve();
      expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
      const types = (await world.events(session)).map(({ type }) => type);
      expect(types.filter((type) => type === "ToolStarted")).to.have.length(before);
      expect(types).to.include("ToolNotRun");
      const peer = await world.peerOf(session);
      expect(peer.received.filter(({ op }) => op === "exec")).to.have.length(before);
    });
  }

  type Gate = Record<"asked" | "held", PromiseWithResolvers<void>>;
  type Way = Readonly<{ text: string; isWarm: boolean; events: readonly EventType[] }>;

  /** A turn whose append of exactly these events is held. */
  async function begun({ text, isWarm, events }: Way) {
    const options: WorldOptions = { schedules: false };
    world = new World(options);
    const gate: Gate = { asked: Promise.withResolvers(), held: Promise.withResolvers() };
    await world.startBrain("brain-a", { through: (ledger) => holding(ledger, gate, events) });
    const session = await world.createSession();
    if (isWarm) await world.joinSandbox(session);
    await world.post(session, text);
    if (!isWarm) {
      await world.first(session, "ModelReplied");
      await world.joinSandbox(session);
    }
    return { session, gate };
  }

  function holding(ledger: Ledger, gate: Gate, types: readonly EventType[]): Ledger {
    return {
      read: (...args) => ledger.read(...args),
      append: async (session, expected, events, cause) => {
        if (isOf(events, types)) {
          gate.asked.resolve();
          await gate.held.promise;
        }
        return ledger.append(session, expected, events, cause);
      },
    };
  }

  function isOf(events: readonly PistisEvent[], types: readonly EventType[]): boolean {
    return events.map(({ type }) => type).join() === types.join();
  }

  /** A call that did not wait for its append is with the peer, which is in this process, by then. */
  async function settled(): Promise<void> {
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
  }
});
