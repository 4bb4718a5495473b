import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { newId } from "#shared/ids/ids.ts";
import { World } from "../testing/world.ts";

describe("a turn and the network of its sandbox", () => {
  let world: World;
  afterEach(() => world.close());

  async function waiting(text: string, config = {}) {
    world = new World({ config, probes: false });
    const said = Promise.withResolvers<void>();
    world.onLive = (message) => {
      if (message.kind === "progress" && message.step === "network") said.resolve();
    };
    await world.startBrain();
    const session = await world.createSession();
    await world.post(session, text);
    const peer = await world.peerOf(session);
    await said.promise;
    return { session, peer };
  }

  const typesOf = (events: readonly PistisEvent[]) => events.map(({ type }) => type);

  it("C117: starts no call before the network was found closed, and says what it waits for", async () => {
    const { session, peer } = await waiting("$ echo ran");
    expect(typesOf(await world.events(session))).to.not.include("ToolStarted");
    const told = world.live.flatMap((message) => (message.kind === "progress" ? [message.text] : []));
    expect(told).to.include("The network lock-down is checked");
    await world.probe(session, peer);
    expect((await world.first(session, "ToolDone")).data.text).to.contain("ran");
    const types = typesOf(await world.events(session));
    expect(types.indexOf("EgressProbed")).to.be.below(types.indexOf("ToolStarted"));
  });

  it("C117: an open network refuses the session, says what got through, and the next message has it probed again", async () => {
    const { session, peer } = await waiting("$ echo ran");
    await world.probe(session, peer, 1, false);
    const { reason, failure } = (await world.first(session, "TurnEnded")).data;
    expect(reason).to.equal("failed");
    expect(failure?.code).to.equal("egress_open");
    expect(failure?.message).to.contain("a metadata address (answered)");
    expect(failure?.next).to.contain("post a message");
    expect(peer.received.filter(({ op }) => op === "exec")).to.deep.equal([]);
    const types = typesOf(await world.events(session));
    expect(types).to.include("ToolNotRun").and.not.include("ToolStarted");
    await world.post(session, "$ echo again");
    expect((await world.first(session, "SandboxNeeded", 1)).data.reason).to.equal("unprobed");
    await world.probe(session, peer);
    expect((await world.first(session, "ToolDone")).data.text).to.contain("again");
  });

  it("C43: does not wait for a probe for ever", async () => {
    const { session } = await waiting("$ echo ran", { sandboxes: { startMs: 1_000 } });
    const { failure } = (await world.first(session, "TurnEnded")).data;
    expect(failure?.code).to.equal("network_probe_timeout");
    await world.post(session, "$ echo again");
    expect((await world.first(session, "SandboxNeeded", 1)).data.reason).to.equal("unprobed");
  });

  it("asks about the calls of a brain that died whether the network was probed or not (I5)", async () => {
    world = new World({ schedules: false, probes: false });
    const session = await world.createSession();
    await world.post(session, "Go on");
    const peer = await world.joinSandbox(session);
    await world.leaveOpenCalls(session, 1, { callId: newId("call"), tool: "bash", input: { command: "true" } });
    await world.startBrain();
    await peer.has("attach");
    expect((await world.first(session, "ToolNotRun")).data.reason).to.equal("never_seen");
  });
});
