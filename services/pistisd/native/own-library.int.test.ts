import { readFileSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { run } from "../testing/ask.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

describe("pistisd through its own C library", () => {
  let sandbox: TestSandbox;
  before(async () => {
    sandbox = await openSandbox({ program: "pistisd-musl", handsOverToken: true });
  });
  after(() => sandbox.close());

  it("S3: runs commands that get nothing of that library", async () => {
    const brain = await openBrain(sandbox);
    const pid = sandbox.daemon?.pid ?? 0;
    expect(readFileSync(`/proc/${pid}/maps`, "latin1")).to.contain("/dist/pistisd/lib/libc.so.6");
    const { text } = await run(sandbox, brain, "env | grep -c ^LD_; grep -c dist/pistisd /proc/self/maps");
    expect(text).to.equal("0\n0\n");
  });

  it("S3: searches in a process that it starts the same way", async () => {
    const brain = await openBrain(sandbox);
    writeFileSync(sandbox.path("a.txt"), "needle");
    const request = { path: ".", pattern: "needle", ignoreCase: false, matchesMax: 5, timeoutMs: 20_000 };
    expect((await brain.ask({ op: "fileSearch", ...request })).matches).to.have.length(1);
  });
});
