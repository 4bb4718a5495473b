import { expect } from "chai";
import type { OpenLink, SandboxLink } from "#shared/sandbox-link/link.ts";
import { World } from "../testing/world.ts";

describe("Stop, while a command goes to the background", () => {
  let world: World;
  beforeEach(() => {
    world = new World();
  });
  afterEach(() => world.close());

  /** A turn that is stopped between the start of `command` in the background and the answer that says so. */
  async function stoppedOnItsWay(command: string, stop?: (session: string) => SandboxLink["stop"]) {
    const openLink: OpenLink = (request) => {
      const link = world.openLink(request);
      const exec: SandboxLink["exec"] = async (asked, options) => {
        const answer = await link.exec(asked, options);
        await world.interrupt(session);
        await (await world.peerOf(session)).has("stop");
        return answer;
      };
      return { ...link, exec, ...(stop === undefined ? {} : { stop: stop(session) }) };
    };
    await world.startBrain("brain-a", { openLink });
    const session = await world.createSession();
    await world.post(session, `> background ${command}`);
    const { callId } = (await world.first(session, "ToolStarted")).data;
    return { session, callId };
  }

  it("C63: tells it as stopped, not as running", async () => {
    const { session, callId } = await stoppedOnItsWay("sleep 1000");
    const { outcome, text } = (await world.first(session, "ToolDone")).data;
    expect(outcome).to.deep.equal({ status: "stopped" });
    expect(text).to.contain("Stopped by the user");
    const process = (await world.peerOf(session)).calls.get(callId)?.process;
    expect((await process?.ended)?.outcome.status).to.equal("stopped");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
  });

  it("I5: tells it as unknown when the sandbox cannot be told to stop", async () => {
    const { session } = await stoppedOnItsWay("true", (stopped) => async () => {
      const peer = await world.peerOf(stopped);
      await peer.receive({ op: "stop", epoch: Number.MAX_SAFE_INTEGER }, () => undefined);
      throw new Error("the sandbox went away");
    });
    expect((await world.first(session, "ToolOutcomeUnknown")).data.reason).to.equal("stop_unconfirmed");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
  });
});
