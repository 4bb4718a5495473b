import { expect } from "chai";
import { run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

describe("commands", () => {
  let sandbox: TestSandbox;
  let brain: PeerChannel;
  before(async () => {
    sandbox = await openSandbox();
    brain = await openBrain(sandbox);
  });
  after(() => sandbox.close());

  it("runs a command in the workspace and tells its exit code", async () => {
    const { outcome, text, leftRunning } = await run(sandbox, brain, "pwd; exit 3");
    expect(outcome).to.deep.equal({ status: "exited", exitCode: 3 });
    expect(text).to.equal(`${sandbox.workspace}\n`);
    expect(leftRunning).to.equal(false);
  });
});
