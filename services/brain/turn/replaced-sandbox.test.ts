// What a brain still holds of a sandbox when the ledger says that another one took its place.
import { expect } from "chai";
import { World } from "../testing/world.ts";

describe("a sandbox that was replaced between two turns", () => {
  let world: World;
  afterEach(() => world.close());

  async function afterOneTurn() {
    world = new World();
    await world.startBrain();
    const session = await world.createSession();
    await world.post(session, "$ true");
    await world.first(session, "TurnEnded");
    return { session, first: await world.peerOf(session) };
  }

  it("C48: gets no command over the link that was kept; the new one gets it", async () => {
    const { session, first } = await afterOneTurn();
    const second = await world.joinSandbox(session, 2);
    await world.post(session, "$ echo again");
    expect((await world.first(session, "ToolDone", 1)).data.text).to.contain("again");
    const execs = (peer: typeof first) => peer.received.filter(({ op }) => op === "exec").map(({ epoch }) => epoch);
    expect(execs(first)).to.deep.equal([1]);
    expect(execs(second)).to.deep.equal([2]);
  });

  it("C48: is found to be gone at the first failure, and the new one is looked up", async () => {
    const { session, first } = await afterOneTurn();
    first.goOffline();
    await world.post(session, "$ echo again");
    await world.first(session, "TurnStarted", 1);
    first.giveUp("unreachable");
    const second = await world.joinSandbox(session, 2);
    expect((await world.first(session, "ToolDone", 1)).data.text).to.contain("again");
    expect(second.received.map(({ op }) => op)).to.include("exec");
    expect(first.received.filter(({ op }) => op === "exec")).to.have.length(1);
  });
});
