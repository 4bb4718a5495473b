import { expect } from "chai";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { appendMany, causeOf, expectFatal, failureFrom, lastOf, posted } from "#shared/testing/messages.ts";
import { handleCommand, load } from "./handle-command.ts";
import { type Ledger, NEW_SESSION } from "./ledger.ts";
import { memoryLedger } from "./memory.ts";

/** Counts messages; a session takes at most three. */
const counting = {
  initialState: 0,
  evolve: (count: number, event: PistisEvent) => (event.type === "MessagePosted" ? count + 1 : count),
  decide: (count: number, command: { wanted: number }): EventOf<"MessagePosted">[] => {
    if (command.wanted > 3) throw new Refusal("too_many", "At most three messages");
    return count >= command.wanted ? [] : [posted(`${count + 1}`)];
  },
};

describe("handleCommand", () => {
  let gateway: Ledger;
  let session: string;
  beforeEach(() => {
    gateway = memoryLedger().open("gateway");
    session = newId("session");
  });

  it("appends what was decided and gives the state after it", async () => {
    const { state, version, appended } = await handle(1);
    expect(state).to.equal(1);
    expect(version).to.deep.equal({ sequence: appended?.sequence, hash: appended?.hash });
    expect((await gateway.read(session)).version).to.deep.equal(version);
  });

  it("appends nothing when what is asked for already holds", async () => {
    await handle(1);
    expect(await handle(1)).to.deep.include({ state: 1, appended: undefined });
    expect((await gateway.read(session)).messages).to.have.length(1);
  });

  it("lets a refusal through and appends nothing", async () => {
    expect(await failureFrom(() => handle(4))).to.be.instanceOf(Refusal);
    expect((await gateway.read(session)).messages).to.deep.equal([]);
  });

  it("decides again on what another writer was first with", async () => {
    const ends = await Promise.all(Array.from({ length: 5 }, () => handle(1)));
    expect(ends.filter(({ appended }) => appended !== undefined)).to.have.length(1);
    expect(ends.map(({ state }) => state)).to.deep.equal([1, 1, 1, 1, 1]);
  });

  it("goes on from a known state and reads only what is new", async () => {
    const known = await load(gateway, counting, session);
    await appendMany(gateway, session, 2);
    const reads: number[] = [];
    const watched: Ledger = {
      append: gateway.append,
      read: async (...request) => {
        const end = await gateway.read(...request);
        reads.push(end.messages.length);
        return end;
      },
    };
    const now = await load(watched, counting, session, known);
    await load(watched, counting, session, now);
    expect(now.state).to.equal(2);
    expect(reads).to.deep.equal([2, 0]);
  });

  it("drops a known state that the ledger has lost a message of, and decides on what is there", async () => {
    const first = lastOf(await appendMany(gateway, session, 1));
    const known = { state: 2, version: { sequence: 1_000, hash: "0".repeat(64) } };
    const request = { session, command: { wanted: 3 }, cause: causeOf(session), known };
    const { state, appended } = await handleCommand(gateway, counting, request);
    expect([state, appended?.prev]).to.deep.equal([2, first.hash]);
  });

  it("drops a known state that what the ledger has now does not follow on", async () => {
    await appendMany(gateway, session, 2);
    const lost = { sequence: 1, hash: "0".repeat(64) };
    const chained: Ledger = {
      append: gateway.append,
      read: async (id, after = NEW_SESSION) => {
        const end = await gateway.read(id, after);
        const isBroken = end.messages.some(({ prev }, index) => index === 0 && prev !== after.hash);
        if (isBroken) throw new Fatal("chain_broken", "It does not follow");
        return end;
      },
    };
    expect((await load(chained, counting, session, { state: 3, version: lost })).state).to.equal(2);
    const broken: Ledger = { ...chained, read: () => Promise.reject(new Fatal("chain_broken", "It does not follow")) };
    await expectFatal("chain_broken", () => load(broken, counting, session, { state: 3, version: lost }));
    await expectFatal("chain_broken", () => load(broken, counting, session));
  });

  function handle(wanted: number) {
    return handleCommand(gateway, counting, { session, command: { wanted }, cause: causeOf(session) });
  }
});
