import { expect } from "chai";
import { run } from "../testing/ask.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

const FILE = "/var/lib/pistisd/junk";
/** Fills the disk to its last byte. */
const FILL = `dd if=/dev/zero of=${FILE} bs=64k 2>/dev/null; dd if=/dev/zero of=${FILE} oflag=append conv=notrunc bs=1 2>/dev/null; echo full`;

describe("a sandbox whose disk is full", () => {
  let sandbox: TestSandbox;
  beforeEach(async () => {
    sandbox = await openSandbox({ isolated: true, stateBytes: 4_000_000 });
  });
  afterEach(() => sandbox.close());

  it("greets a newer brain, which can make room again, each time that it is filled", async () => {
    for (const epoch of [2, 4]) {
      const brain = await openBrain(sandbox, epoch);
      expect((await run(sandbox, brain, FILL)).outcome).to.deep.equal({ status: "exited", exitCode: 0 });
      const newer = await openBrain(sandbox, epoch + 1);
      expect((await run(sandbox, newer, `rm ${FILE}; ls /var/lib/pistisd`)).text).to.not.include("junk");
      expect((await run(sandbox, newer, "ls /var/lib/pistisd")).text).to.include("reserve");
    }
  });
});
