import { existsSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { Kind, writeFrame } from "#schemas/wire/frame.ts";
import { execRequest, readOutput, run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { openBrain, openSandbox, type TestSandbox } from "../testing/sandbox.ts";
import { whenGone } from "../testing/wait.ts";

const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => "answered",
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : String(error)),
  );

describe("a channel", () => {
  let sandbox: TestSandbox;
  beforeEach(async () => {
    sandbox = await openSandbox();
  });
  afterEach(() => sandbox.close());

  it("answers hello with its boot, protocol and version", async () => {
    const answer = await sandbox.relay.openChannel().brain(1);
    expect(answer).to.include({ protocol: 1, bootId: sandbox.relay.current?.bootId });
  });

  it("serves nothing before hello, and no unknown protocol", async () => {
    const channel = sandbox.relay.openChannel();
    expect(await codeOf(channel.ask({ op: "processes" }))).to.equal("bad_request");
    expect(await codeOf(channel.ask({ op: "hello", protocol: 2, role: "brain", epoch: 1 }))).to.equal("bad_request");
    expect(await codeOf(channel.ask({ op: "hello", protocol: 1, role: "brain" }))).to.equal("bad_request");
  });

  it("I4: refuses an epoch older than the newest, and all that comes on its channel", async () => {
    await openBrain(sandbox, 7);
    const stale = sandbox.relay.openChannel();
    expect(await codeOf(stale.brain(6))).to.equal("epoch_stale");
    expect(await codeOf(run(sandbox, stale, "touch ran"))).to.equal("epoch_stale");
    expect(await codeOf(stale.ask({ op: "fileList", path: ".", depth: 1, entriesMax: 10 }))).to.equal("epoch_stale");
  });

  it("I4: refuses what a brain sends after a newer one came, and undoes a write that was under way", async () => {
    const old = await openBrain(sandbox, 1);
    const { stream } = old.stream();
    const writing = old.ask({ op: "fileWrite", callId: sandbox.newCallId(), path: "f", size: 2, stream });
    old.sendData(stream, 0, Buffer.from("a"));
    const next = await openBrain(sandbox, 2);
    old.sendData(stream, 1, Buffer.from("b"));
    old.sendData(stream, 2, Buffer.from(""));
    expect(await codeOf(writing)).to.equal("epoch_stale");
    expect(await codeOf(run(sandbox, old, "touch ran"))).to.equal("epoch_stale");
    const { entries } = await next.ask({ op: "fileList", path: ".", depth: 1, entriesMax: 10 });
    expect(entries).to.deep.equal([]);
  });

  it("I4: remembers the newest epoch over a restart", async () => {
    await openBrain(sandbox, 9);
    await restart(sandbox);
    expect(await codeOf(sandbox.relay.openChannel().brain(8))).to.equal("epoch_stale");
    await openBrain(sandbox, 9);
  });

  it("serves a service beside the brain, whatever the epoch", async () => {
    await openBrain(sandbox, 5);
    const service = sandbox.relay.openChannel();
    await service.ask({ op: "hello", protocol: 1, role: "service" });
    expect((await run(sandbox, service, "echo hi")).text).to.equal("hi\n");
  });

  it("I2: runs a call id once, refuses it afterwards, and keeps its result", async () => {
    const brain = await openBrain(sandbox);
    const request = execRequest(sandbox, { command: "echo ran >> log; cat log" });
    await brain.ask(request);
    expect(await codeOf(brain.ask(request))).to.equal("call_seen");
    expect(readFileSync(sandbox.path("log"), "utf8")).to.equal("ran\n");
    const { callId, excerpt } = request;
    const attached = await brain.ask({ op: "attach", callId, excerpt, from: 0 });
    expect(attached).to.have.nested.property("result.outcome.exitCode", 0);
  });

  it("I2: of two peers with one call id at the same time, one runs it", async () => {
    const [one, other] = [await openBrain(sandbox), await openBrain(sandbox)];
    const request = execRequest(sandbox, { command: "echo ran >> log" });
    const ends = await Promise.all([codeOf(one.ask(request)), codeOf(other.ask(request))]);
    expect(ends.sort()).to.deep.equal(["answered", "call_seen"]);
    expect(readFileSync(sandbox.path("log"), "utf8")).to.equal("ran\n");
  });

  it("I5: bars a call that it never saw when asked about it", async () => {
    const brain = await openBrain(sandbox);
    const request = execRequest(sandbox, { command: "touch ran" });
    const { callId, excerpt } = request;
    const asked = () => brain.ask({ op: "attach", callId, excerpt, from: 0 });
    expect(await asked()).to.deep.equal({ state: "never-seen" });
    expect(await codeOf(brain.ask(request))).to.equal("call_barred");
    expect(await asked()).to.deep.equal({ state: "never-seen" });
  });

  it("I5: says lost of a call that ran when the daemon was killed, and ends what is left of it", async () => {
    const brain = await openBrain(sandbox);
    const { stream, received } = brain.stream();
    const cut = execRequest(sandbox, { command: "echo $$; exec sleep 1000", stream });
    const whole = execRequest(sandbox, { command: "echo done" });
    await brain.ask(whole);
    void brain.askRaw(cut);
    await received.until(({ bytes }) => bytes > 0);
    await restart(sandbox);
    const next = await openBrain(sandbox, 2);
    const ask = ({ callId, excerpt }: typeof cut) => next.ask({ op: "attach", callId, excerpt, from: 0 });
    expect(await ask(cut)).to.deep.equal({ state: "lost" });
    expect(await ask(whole)).to.have.nested.property("result.head", Buffer.from("done\n").toString("base64"));
    expect(await codeOf(next.ask(cut))).to.equal("call_seen");
    await whenGone(Number(received.text()));
  });

  it("I5: says lost of a background command that the restart ended, and not of one that was over", async () => {
    const brain = await openBrain(sandbox);
    const [first, second] = [brain.stream(), brain.stream()];
    const background = true;
    const whole = execRequest(sandbox, { command: "echo done", background, stream: first.stream });
    const cut = execRequest(sandbox, { command: "echo $$; exec sleep 1000", background, stream: second.stream });
    for (const request of [whole, cut]) await brain.ask(request);
    await first.received.ended.promise;
    await second.received.until(({ bytes }) => bytes > 0);
    const ask = (peer: PeerChannel, { callId, excerpt }: typeof cut) =>
      peer.ask({ op: "attach", callId, excerpt, from: 0 });
    expect(await ask(brain, cut)).to.have.nested.property("result.outcome.status", "background");
    expect(await ask(brain, whole)).to.have.nested.property("result.outcome.exitCode", 0);
    await restart(sandbox);
    const next = await openBrain(sandbox, 2);
    expect(await ask(next, cut)).to.deep.equal({ state: "lost" });
    expect(await ask(next, whole)).to.have.nested.property("result.outcome.exitCode", 0);
    const outputOf = async ({ callId }: typeof cut) => (await readOutput(next, callId, 0, 100)).text();
    expect(await outputOf(whole)).to.equal("done\n");
    expect(await outputOf(cut)).to.equal(second.received.text());
    await whenGone(Number(second.received.text()));
  });

  for (const background of [false, true]) {
    const where = background ? "in the background" : "while it is waited for";
    it(`stays up when a command takes away, ${where}, the records that its end is to be kept in`, async () => {
      const brain = await openBrain(sandbox);
      const { bootId } = await brain.brain(1);
      const { stream, received } = brain.stream();
      const command = `rm -rf ${sandbox.state}/calls; mkdir ${sandbox.state}/gone`;
      await codeOf(brain.ask(execRequest(sandbox, { command, background, stream })));
      if (background) await received.ended.promise;
      expect(existsSync(`${sandbox.state}/gone`)).to.equal(true);
      expect((await brain.brain(1)).bootId).to.equal(bootId);
      expect((await brain.ask({ op: "processes" })).processes.map(({ running }) => running)).to.deep.equal([false]);
    });
  }

  it("answers a bad request with what is wrong, and drops what is no request", async () => {
    const brain = await openBrain(sandbox);
    expect(await codeOf(brain.askRaw({ op: "explode" }))).to.equal("bad_request");
    expect(await codeOf(brain.askRaw({ op: "exec", callId: "../../etc", command: "true" }))).to.equal("bad_request");
    const socket = sandbox.relay.current?.socket;
    socket?.send(writeFrame(Kind.message, brain.number, Buffer.from("{not json")));
    socket?.send(writeFrame(Kind.message, brain.number, Buffer.from([0xff, 0xfe])));
    socket?.send(writeFrame(Kind.data, brain.number, new Uint8Array(3)));
    socket?.send(writeFrame(Kind.credit, brain.number, new Uint8Array(9)));
    socket?.send(writeFrame(Kind.message, 4_000_000_000, Buffer.from("{}")));
    socket?.send(new Uint8Array([1, 2]));
    socket?.send("text");
    expect((await run(sandbox, brain, "echo fine")).text).to.equal("fine\n");
  });

  it("refuses a stream number that is in use, and takes it again afterwards", async () => {
    const brain = await openBrain(sandbox);
    const { stream, received } = brain.stream();
    const first = brain.ask(execRequest(sandbox, { command: "while [ ! -e go ]; do sleep 0.01; done", stream }));
    expect(await codeOf(brain.ask(execRequest(sandbox, { command: "true", stream })))).to.equal("bad_request");
    await run(sandbox, brain, "touch go");
    await first;
    await received.ended.promise;
    expect(await codeOf(brain.ask(execRequest(sandbox, { command: "true", stream })))).to.equal("answered");
  });

  it("refuses more commands at once than it can look after", async () => {
    const brain = await openBrain(sandbox);
    const started = Array.from({ length: 128 }, () =>
      execRequest(sandbox, { command: "sleep 1000", background: true }),
    );
    await Promise.all(started.map((request) => brain.ask(request)));
    expect(await codeOf(run(sandbox, brain, "true"))).to.equal("too_many_commands");
    await brain.ask({ op: "stop", callId: started[0]?.callId ?? "", graceMs: 500 });
    expect((await run(sandbox, brain, "echo fine")).text).to.equal("fine\n");
  });

  it("counts among them commands that ended and left processes behind", async () => {
    const brain = await openBrain(sandbox);
    const command = "sleep 1000 >/dev/null 2>&1 &";
    const callId = sandbox.newCallId();
    await run(sandbox, brain, { command, callId });
    for (let others = 127; others > 0; others--) await run(sandbox, brain, command);
    expect(await codeOf(run(sandbox, brain, "true"))).to.equal("too_many_commands");
    await brain.ask({ op: "stop", callId, graceMs: 500 });
    expect((await run(sandbox, brain, "echo fine")).text).to.equal("fine\n");
  });
});

async function restart(sandbox: TestSandbox): Promise<void> {
  const connected = sandbox.relay.nextConnection();
  sandbox.killDaemon();
  await connected;
}
