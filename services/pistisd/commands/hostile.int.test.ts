// Commands that attack the sandbox itself. Each runs in namespaces of its own with limits: never without.
import { expect } from "chai";
import { execRequest, run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";

describe("commands that attack their sandbox", () => {
  let sandbox: TestSandbox;
  let brain: PeerChannel;
  beforeEach(async () => {
    sandbox = await openSandbox({ isolated: true, processesMax: 60 });
    brain = await openBrain(sandbox);
  });
  afterEach(() => sandbox.close());

  it("stays up when a command kills everything that it can", async () => {
    const other = brain.ask(execRequest(sandbox, { command: "sleep 1000" }));
    const { bootId } = await brain.brain(1);
    const { outcome } = await run(sandbox, brain, "kill -9 -1; echo survived");
    expect(outcome.status).to.be.oneOf(["exited", "signalled"]);
    expect((await other).outcome).to.deep.equal({ status: "signalled", signal: "SIGKILL", outOfMemory: false });
    expect((await brain.brain(1)).bootId).to.equal(bootId);
    expect((await run(sandbox, brain, "echo here")).text).to.equal("here\n");
  });

  it("as process 1 takes no signal that it does not listen to", async () => {
    await run(sandbox, brain, "kill -9 1; kill -STOP 1; kill -HUP 1; kill -QUIT 1; kill -USR2 1");
    expect((await run(sandbox, brain, "echo here")).text).to.equal("here\n");
  });

  it("ends a fork bomb at its time-out and goes on", async () => {
    const bomb = await run(sandbox, brain, { command: "bomb() { bomb | bomb & }; bomb; sleep 1000", timeoutMs: 700 });
    expect(bomb.outcome).to.deep.equal({ status: "timed-out", timeoutMs: 700 });
    expect((await run(sandbox, brain, "ls /proc | grep -c '^[0-9]'")).text).to.match(/^[0-9]\n$/);
  });

  it("ends a fork bomb whose processes leave their session, when it is stopped", async () => {
    const { stream, received } = brain.stream();
    const command = "echo going; exec sh -c 'while :; do setsid sleep 1000 & done 2>/dev/null'";
    const request = execRequest(sandbox, { command, stream });
    const result = brain.ask(request);
    await received.until(({ bytes }) => bytes > 0);
    expect(await brain.ask({ op: "stop", callId: request.callId, graceMs: 100 })).to.deep.equal({ stopped: true });
    expect((await result).outcome).to.deep.equal({ status: "stopped" });
    expect((await run(sandbox, brain, "ls /proc | grep -c '^[0-9]'")).text).to.match(/^[0-9]\n$/);
  });

  it("answers while the sandbox is full of processes", async () => {
    const { stream, received } = brain.stream();
    const full = execRequest(sandbox, {
      command: "while :; do sleep 1000 & done",
      stream,
    });
    const result = brain.ask(full);
    await received.until((so) => so.text().includes("fork"));
    const refused = await brain.ask(execRequest(sandbox, { command: "/bin/true; /bin/true" }));
    expect(refused.outcome.status).to.be.oneOf(["failed", "exited"]);
    await brain.ask({ op: "stop", callId: full.callId, graceMs: 0 });
    expect((await result).outcome).to.deep.equal({ status: "stopped" });
    expect((await run(sandbox, brain, "echo here")).text).to.equal("here\n");
  });

  it("S41: has the join token in no environment, no argument and no file of the sandbox", async () => {
    const everything =
      "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; cat /var/lib/pistisd/*; find /tmp /workspace -type f";
    const { text } = await run(sandbox, brain, `{ ${everything}; } 2>/dev/null | tr '\\0' '\\n'`);
    expect(text).to.contain(sandbox.relay.options.pass);
    expect(text).not.to.contain(sandbox.relay.options.joinToken);
  });

  it("frees every process that ended, as process 1", async () => {
    await run(sandbox, brain, "for i in 1 2 3 4 5; do (setsid sh -c 'exit 3' &); done; sleep 0.1");
    expect((await run(sandbox, brain, "cat /proc/[0-9]*/stat | grep -c ') Z ' || true")).text).to.equal("0\n");
  });
});
