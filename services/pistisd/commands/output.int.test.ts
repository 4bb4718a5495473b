import { expect } from "chai";
import { STREAM_WINDOW_BYTES } from "#schemas/wire/frame.ts";
import { execRequest, readOutput, run } from "../testing/ask.ts";
import type { PeerChannel } from "../testing/peer-channel.ts";
import { daemonPid, openBrain, openSandbox, residentBytes, type TestSandbox } from "../testing/sandbox.ts";
import { whenever } from "../testing/wait.ts";

const MIB = 1024 * 1024;

describe("output of commands", () => {
  let sandbox: TestSandbox;
  let brain: PeerChannel;
  before(async () => {
    sandbox = await openSandbox();
    brain = await openBrain(sandbox);
  });
  after(() => sandbox.close());

  it("streams 100 MB whole and in order, with flat memory", async () => {
    const { stream, received } = brain.stream();
    received.keep = false;
    const pid = daemonPid(sandbox);
    await run(sandbox, brain, "head -c 1000000 /dev/zero");
    const before = residentBytes(pid);
    let most = before;
    received.onBytes = () => {
      most = Math.max(most, residentBytes(pid));
    };
    const result = await brain.ask(execRequest(sandbox, { command: "head -c 104857600 /dev/zero", stream }));
    await received.ended.promise;
    expect(result).to.include({ outputBytes: 100 * MIB, keptBytes: 100 * MIB });
    expect(received).to.include({ bytes: 100 * MIB, firstPosition: 0, endPosition: 100 * MIB });
    expect(received.gaps).to.deep.equal([]);
    expect(most - before).to.be.lessThan(64 * MIB);
  });

  it("C84: gives the start, the end and the true count of `seq 1 20000000`", async () => {
    const result = await run(sandbox, brain, "seq 1 20000000");
    expect(result.outputBytes).to.equal(168_888_897);
    expect(Buffer.from(result.head, "base64").toString()).to.match(/^1\n2\n3\n/);
    expect(Buffer.from(result.tail, "base64").toString()).to.match(/19999999\n20000000\n$/);
    expect(Buffer.from(result.tail, "base64")).to.have.length(8_192);
  });

  it("C85: takes one line of 10 MB and reads any range of it later", async () => {
    const request = execRequest(sandbox, { command: "head -c 10000000 /dev/zero | tr '\\0' 'x'; printf END" });
    const result = await brain.ask(request);
    expect(result.outputBytes).to.equal(10_000_003);
    expect(Buffer.from(result.tail, "base64").subarray(-5).toString()).to.equal("xxEND");
    const range = await readOutput(brain, request.callId, 9_999_998, 100);
    expect(range.text()).to.equal("xxEND");
    expect((await readOutput(brain, request.callId, 0, 3 * MIB)).bytes).to.equal(3 * MIB);
    expect((await readOutput(brain, request.callId, 20_000_000, 10)).bytes).to.equal(0);
  });

  it("C81: passes NUL and bytes that are no UTF-8 as they are", async () => {
    const { stream, received } = brain.stream();
    const result = await brain.ask(execRequest(sandbox, { command: "printf 'a\\000\\377\\200b'", stream }));
    await received.ended.promise;
    expect(received.text()).to.equal("a\0\xff\x80b");
    expect(Buffer.from(result.head, "base64").toString("latin1")).to.equal("a\0\xff\x80b");
  });

  it("C83: passes a character that is split between two writes", async () => {
    const { stream, received } = brain.stream();
    const command = "printf '\\342\\202'; while [ ! -e second ]; do sleep 0.01; done; printf '\\254'";
    const result = brain.ask(execRequest(sandbox, { command, stream }));
    await received.until(({ bytes }) => bytes === 2);
    await run(sandbox, brain, "touch second");
    await result;
    await received.ended.promise;
    expect(Buffer.concat(received.chunks).toString("utf8")).to.equal("€");
    expect(received.chunks.length).to.be.greaterThan(1);
  });

  it("sends no more than its credit, and a reader that stands still does not slow the command", async () => {
    const { stream, received } = brain.stream();
    received.grants = false;
    const result = await brain.ask(execRequest(sandbox, { command: "head -c 20000000 /dev/zero", stream }));
    expect(result).to.include({ outputBytes: 20_000_000 });
    await received.until(({ bytes }) => bytes === STREAM_WINDOW_BYTES);
    await run(sandbox, brain, "true");
    expect(received.bytes).to.equal(STREAM_WINDOW_BYTES);
    received.grants = true;
    brain.grant(stream, STREAM_WINDOW_BYTES);
    await received.ended.promise;
    expect(received).to.include({ bytes: 20_000_000, endPosition: 20_000_000 });
    expect(received.gaps).to.deep.equal([]);
  });

  it("sends the end of an output that was read in time before the answer", async () => {
    for (let round = 0; round < 20; round++) {
      const { stream, received } = brain.stream();
      const result = await brain.ask(execRequest(sandbox, { command: "echo first; echo last", stream }));
      expect(received).to.include({ bytes: 11, endPosition: 11 });
      expect(result.outputBytes).to.equal(11);
    }
  });

  it("cancels the reading of an output", async () => {
    const request = execRequest(sandbox, { command: "head -c 5000000 /dev/zero" });
    await brain.ask(request);
    const { stream, received } = brain.stream();
    received.grants = false;
    await brain.ask({ op: "outputRead", callId: request.callId, from: 0, length: 5_000_000, stream });
    await received.until(({ bytes }) => bytes === STREAM_WINDOW_BYTES);
    brain.sendMessage({ cancel: brain.lastId });
    brain.grant(stream, 4_000_000);
    await run(sandbox, brain, "true");
    expect(received.bytes).to.equal(STREAM_WINDOW_BYTES);
  });

  it("refuses the output of a call that never ran", async () => {
    const { stream } = brain.stream();
    const asked = brain.ask({ op: "outputRead", callId: "cal_nothing", from: 0, length: 1, stream });
    expect(await asked.catch((error: unknown) => error)).to.have.property("code", "call_unknown");
  });

  it("goes on with a peer that is gone in the middle of a stream", async () => {
    const gone = await openBrain(sandbox);
    const { stream, received } = gone.stream();
    received.grants = false;
    const request = execRequest(sandbox, { command: "head -c 30000000 /dev/zero", stream });
    void gone.askRaw(request);
    await received.until(({ bytes }) => bytes > 0);
    sandbox.relay.closeChannel(gone);
    const { callId, excerpt } = request;
    const attached = await brain.ask({ op: "attach", callId, excerpt, from: 0 });
    expect(attached).to.have.nested.property("result.outputBytes", 30_000_000);
    await whenever(() => residentBytes(daemonPid(sandbox)) > 0);
  });
});
