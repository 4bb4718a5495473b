import { existsSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { execRequest, readOutput, run, textOf } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";
import { whenGone } from "../testing/wait.ts";

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

  it("runs in the folder and with the variables that the request names", async () => {
    await run(sandbox, brain, "mkdir -p inner");
    const { text } = await run(sandbox, brain, {
      command: "pwd; echo $GREETING",
      cwd: "inner",
      env: { GREETING: "hi" },
    });
    expect(text).to.equal(`${sandbox.path("inner")}\nhi\n`);
  });

  it("keeps standard output and standard error in the order in which they were written", async () => {
    const { text } = await run(sandbox, brain, "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done");
    expect(text).to.equal("out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\nout5\nerr5\n");
  });

  it("lets a command open /dev/stdout and /dev/stderr", async () => {
    expect((await run(sandbox, brain, "echo a > /dev/stderr; echo b | tee /dev/stderr > /dev/null")).text).to.equal(
      "a\nb\n",
    );
  });

  it("tells the signal that ended a command", async () => {
    const { outcome } = await run(sandbox, brain, "kill -USR1 $$");
    expect(outcome).to.deep.equal({ status: "signalled", signal: "SIGUSR1", outOfMemory: false });
  });

  it("runs a command text that is too long for an argument", async () => {
    const { text } = await run(sandbox, brain, `x='${"a".repeat(300_000)}'; echo \${#x}`);
    expect(text).to.equal("300000\n");
  });

  it("C77: ends a command at its time-out, also one that ignores TERM", async () => {
    const polite = await run(sandbox, brain, { command: "sleep 1000", timeoutMs: 100 });
    expect(polite.outcome).to.deep.equal({ status: "timed-out", timeoutMs: 100 });
    const deaf = await run(sandbox, brain, {
      command: "trap '' TERM; echo deaf; while :; do sleep 1; done",
      timeoutMs: 100,
    });
    expect(deaf.outcome).to.deep.equal({ status: "timed-out", timeoutMs: 100 });
    expect(deaf.text).to.equal("deaf\n");
  });

  it("C76: leaves a silent command alone while it is within its limit", async () => {
    const { outcome, outputBytes } = await run(sandbox, brain, { command: "sleep 0.3", timeoutMs: 20_000 });
    expect(outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    expect(outputBytes).to.equal(0);
  });

  it("C69: answers when the shell ends although a background server holds the pipe, and hands out a handle", async () => {
    const request = execRequest(sandbox, { command: "sleep 1000 & echo started $!" });
    const result = await brain.ask(request);
    expect(result.outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    expect(result.leftRunning).to.equal(true);
    const output = Buffer.from(result.head, "base64").toString();
    expect(output).to.match(/^started \d+\n$/);
    expect(await brain.ask({ op: "stop", callId: request.callId, graceMs: 1_000 })).to.deep.equal({ stopped: true });
    await whenGone(Number(output.split(" ")[1]));
    expect(await brain.ask({ op: "stop", callId: request.callId, graceMs: 0 })).to.deep.equal({ stopped: false });
  });

  it("stops `sleep 1000 & wait` with everything that it started", async () => {
    const { stream, received } = brain.stream();
    const request = execRequest(sandbox, { command: "sleep 1000 & echo $!; wait", stream });
    const result = brain.ask(request);
    await received.until(({ bytes }) => bytes > 0);
    expect(await brain.ask({ op: "stop", callId: request.callId, graceMs: 1_000 })).to.deep.equal({ stopped: true });
    expect((await result).outcome).to.deep.equal({ status: "stopped" });
    await whenGone(Number(received.text()));
  });

  it("reaches grandchildren that made sessions of their own, also without their environment", async () => {
    const { stream, received } = brain.stream();
    const escapes = [
      "setsid sh -c 'echo $$; exec sleep 1000' &",
      "(setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &)' &)",
      "(env -i /usr/bin/setsid /bin/sh -c '(/usr/bin/setsid /bin/sh -c \"echo \\$\\$; exec /usr/bin/sleep 1000\" &)' &)",
    ];
    const request = execRequest(sandbox, { command: `${escapes.join("\n")}\nsleep 1000`, stream });
    const result = brain.ask(request);
    await received.until((so) => so.text().split("\n").length > escapes.length);
    await brain.ask({ op: "stop", callId: request.callId, graceMs: 100 });
    expect((await result).outcome).to.deep.equal({ status: "stopped" });
    for (const pid of received.text().trim().split("\n")) await whenGone(Number(pid));
  });

  it("C78: lists, reads and signals a background command", async () => {
    const request = execRequest(sandbox, {
      command: "trap 'echo got usr1; exit 7' USR1; echo ready; sleep 1000 & wait",
      background: true,
    });
    const { stream, received } = brain.stream();
    const started = await brain.ask({ ...request, stream });
    expect(started.outcome).to.deep.equal({ status: "background" });
    await received.until(({ bytes }) => bytes >= 6);
    const find = async () =>
      (await brain.ask({ op: "processes" })).processes.find(({ callId }) => callId === request.callId);
    expect(await find()).to.include({ running: true, outputBytes: 6 });
    expect((await readOutput(brain, request.callId, 2, 100)).text()).to.equal("ady\n");
    expect(await brain.ask({ op: "signal", callId: request.callId, signal: "SIGUSR1" })).to.deep.equal({ sent: true });
    await received.ended.promise;
    expect(received.text()).to.equal("ready\ngot usr1\n");
    const listed = await find();
    expect(listed).to.include({ running: false });
    expect(listed?.outcome).to.deep.equal({ status: "exited", exitCode: 7 });
  });

  it("lists hundreds of commands, each with the start of its text", async () => {
    const text = "€".repeat(2_000);
    for (let index = 0; index < 200; index++) await run(sandbox, brain, `: ${text}`);
    const listed = await brain.askUnlessLost({ op: "processes" });
    expect(listed?.processes.length).to.be.at.least(200);
    expect(listed?.processes.at(-1)?.command).to.equal(`: ${text.slice(0, 197)}…`);
  });

  it("can stop what a command left behind without its output, however many commands followed", async () => {
    const request = execRequest(sandbox, { command: "sleep 1000 >/dev/null 2>&1 & echo $!" });
    const pid = Number(textOf(await brain.ask(request)));
    for (let index = 0; index < 201; index++) await run(sandbox, brain, "true");
    const { processes } = await brain.ask({ op: "processes" });
    expect(processes.find(({ callId }) => callId === request.callId)).to.include({ running: true });
    expect(await brain.ask({ op: "stop", callId: request.callId, graceMs: 1_000 })).to.deep.equal({ stopped: true });
    await whenGone(pid);
    await run(sandbox, brain, "true");
    const listed = (await brain.ask({ op: "processes" })).processes.map(({ callId }) => callId);
    expect(listed).not.to.include(request.callId);
  });

  it("C72: keeps a command whose peer went away, and another peer attaches to it at a position", async () => {
    const old = await openBrain(sandbox, 1);
    const first = old.stream();
    const request = execRequest(sandbox, {
      command: "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two",
      stream: first.stream,
    });
    void old.askRaw(request);
    await first.received.until(({ bytes }) => bytes === 4);
    sandbox.relay.closeChannel(old);
    const other = await openBrain(sandbox, 1);
    const second = other.stream();
    const { callId, excerpt } = request;
    const attached = other.ask({ op: "attach", callId, excerpt, from: 4, stream: second.stream });
    await run(sandbox, other, "touch go");
    const result = await attached;
    expect(result).to.have.nested.property("result.outcome.exitCode", 0);
    await second.received.ended.promise;
    expect(second.received.text()).to.equal("two\n");
  });

  it("answers with a failed outcome when a command cannot be started", async () => {
    const request = execRequest(sandbox, { command: "echo a\0b" });
    expect((await brain.ask(request)).outcome.status).to.equal("failed");
    expect(await brain.ask(attachOf(request.callId))).to.have.property("state", "finished");
  });

  it("leaves no ended process behind", async () => {
    await run(sandbox, brain, "for i in 1 2 3; do (setsid sh -c 'exit 0' &) ; done; sleep 0.2");
    const { text } = await run(
      sandbox,
      brain,
      `cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z ${sandbox.daemon?.pid ?? 0} ' || true`,
    );
    expect(text).to.equal("0\n");
  });

  it("offers a command rather than itself when memory is short", async () => {
    expect((await run(sandbox, brain, "sleep 0.05; cat /proc/self/oom_score_adj")).text).to.equal("500\n");
  });

  it("keeps its own state out of the workspace and to itself", () => {
    expect(existsSync(sandbox.path("state"))).to.equal(false);
    expect(readFileSync(`${sandbox.state}/state.json`, "utf8")).to.contain("instance");
  });
});

function attachOf(callId: string) {
  return { op: "attach" as const, callId, excerpt: { headBytes: 0, tailBytes: 0 }, from: 0 };
}
