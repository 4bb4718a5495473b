import { expect } from "chai";
import { WebSocket } from "ws";
import {
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  Kind,
  SUBPROTOCOL,
  writeDataFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import { relayPaths, sandboxStatus } from "#schemas/wire/relay-http.ts";
import { connectSandbox, type FrameSocket, frameSocket, opened, wireOptions } from "#shared/testing/sandbox-peer.ts";
import { adminKey, onlineSandbox, type RelayUnderTest, startRelayForTest } from "./relay-under-test.ts";

const NOTHING = new Uint8Array(0);
const PILE_BYTES = 8 * 1024 * 1024;

async function attachPeer(relay: RelayUnderTest, sandboxId: string): Promise<FrameSocket> {
  const headers = { authorization: `Bearer ${adminKey}` };
  const ws = new WebSocket(relay.wsUrl + relayPaths.attach(sandboxId), [SUBPROTOCOL], { ...wireOptions, headers });
  const peer = frameSocket(ws);
  await opened(ws);
  return peer;
}

async function statusFrom(peer: FrameSocket) {
  const frame = await peer.next();
  expect(frame.kind).to.equal(Kind.status);
  return sandboxStatus.parse(JSON.parse(Buffer.from(frame.payload).toString()));
}

describe("the relay's forwarding", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest();
  });
  afterEach(() => relay.close());

  async function restartWith(limits: NonNullable<Parameters<typeof startRelayForTest>[0]>["limits"]) {
    await relay.close();
    relay = await startRelayForTest(limits === undefined ? {} : { limits });
  }

  it("gives each server-side peer a channel of its own and passes frames on unchanged", async () => {
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peers = [await attachPeer(relay, sandboxId), await attachPeer(relay, sandboxId)];
    const channels: number[] = [];
    for (const peer of peers) {
      expect(await statusFrom(peer)).to.deep.equal({ online: true, bootId: "boot1", generation: 1 });
      const open = await socket.next();
      expect(open.kind).to.equal(Kind.open);
      channels.push(open.channel);
    }
    expect(new Set(channels).size).to.equal(2);
    for (const [index, peer] of peers.entries()) {
      const payload = Buffer.from(`to the sandbox from ${index}`);
      peer.send(writeFrame(Kind.message, 0, payload));
      expect(await socket.next()).to.deep.equal({ kind: Kind.message, channel: channels[index], payload });
      const answer = Buffer.from(`and back ${index}`);
      socket.send(writeFrame(Kind.credit, channels[index] ?? 0, answer));
      expect(await peer.next()).to.deep.equal({ kind: Kind.credit, channel: 0, payload: answer });
    }
  });

  it("C83: passes on any bytes, half a character too", async () => {
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    const { channel } = await socket.next();
    const bytes = Buffer.from([0x00, 0xff, 0xe2, 0x82]);
    socket.send(writeDataFrame(channel, { stream: 1, position: 0, bytes }));
    expect(Buffer.from((await peer.next()).payload.subarray(12))).to.deep.equal(bytes);
  });

  it("tells a peer when its sandbox goes and comes, and the sandbox when a peer goes", async () => {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    socket.ws.terminate();
    expect(await statusFrom(peer)).to.deep.equal({ online: false, bootId: null, generation: 1 });
    const again = await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot2" });
    expect(await statusFrom(peer)).to.deep.equal({ online: true, bootId: "boot2", generation: 1 });
    const { kind, channel } = await again.next();
    expect(kind).to.equal(Kind.open);
    peer.ws.close();
    expect(await again.next()).to.deep.include({ kind: Kind.close, channel });
  });

  it("C45: a newer connection of a sandbox takes the place of the older, which changes nothing any more", async () => {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    const { channel } = await socket.next();
    const newer = await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" });
    socket.send(writeFrame(Kind.message, channel, Buffer.from("late")));
    expect((await socket.closed).code).to.equal(4002);
    expect((await statusFrom(peer)).online).to.equal(true);
    await newer.next();
    newer.send(writeFrame(Kind.message, channel, Buffer.from("new")));
    expect(Buffer.from((await peer.next()).payload).toString()).to.equal("new");
  });

  const breaches: Array<[string, (channel: number) => Uint8Array]> = [
    ["a status", (channel) => writeFrame(Kind.status, channel, Buffer.from('{"online":false}'))],
    ["an open", () => writeFrame(Kind.open, 7, NOTHING)],
    ["a close", (channel) => writeFrame(Kind.close, channel, NOTHING)],
    ["a frame for channel 0", () => writeFrame(Kind.message, 0, NOTHING)],
    ["a frame for a channel that never was", () => writeFrame(Kind.message, 1_000, NOTHING)],
    ["a frame without a header", () => Buffer.from([1, 0])],
  ];
  for (const [what, frame] of breaches) {
    it(`ends a sandbox's connection that sends ${what}`, async () => {
      const { sandboxId, socket } = await onlineSandbox(relay);
      const peer = await attachPeer(relay, sandboxId);
      await statusFrom(peer);
      socket.send(frame((await socket.next()).channel));
      expect((await socket.closed).code).to.equal(4003);
      expect((await statusFrom(peer)).online).to.equal(false);
    });
  }

  it("ends a sandbox's connection that sends text", async () => {
    const { socket } = await onlineSandbox(relay);
    socket.ws.send("hello");
    expect((await socket.closed).code).to.equal(4003);
  });

  it("C88: cuts a frame that is too large, and the peer learns that the sandbox is gone", async () => {
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    const { channel } = await socket.next();
    const largest = FRAME_BYTES_MAX - FRAME_HEADER_BYTES;
    socket.send(writeFrame(Kind.message, channel, new Uint8Array(largest)));
    expect((await peer.next()).payload.byteLength).to.equal(largest);
    socket.send(writeFrame(Kind.message, channel, new Uint8Array(largest + 1)));
    expect((await socket.closed).code).to.equal(1009);
    expect((await statusFrom(peer)).online).to.equal(false);
  });

  it("drops what is under way to a peer that has just gone, but not without end", async () => {
    await restartWith({ lateFramesMax: 3 });
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    const { channel } = await socket.next();
    peer.ws.close();
    expect((await socket.next()).kind).to.equal(Kind.close);
    const other = await attachPeer(relay, sandboxId);
    await statusFrom(other);
    const next = await socket.next();
    for (let n = 0; n < 3; n++) socket.send(writeFrame(Kind.message, channel, NOTHING));
    socket.send(writeFrame(Kind.message, next.channel, Buffer.from("still here")));
    expect(Buffer.from((await other.next()).payload).toString()).to.equal("still here");
    socket.send(writeFrame(Kind.message, channel, NOTHING));
    expect((await socket.closed).code).to.equal(4003);
  });

  it("finds a connection that is half open, and a timer of an older one does nothing", async () => {
    await restartWith({ pingMs: 25 });
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    // Nothing is read any more, so no ping is answered: as good as a cable that was pulled.
    socket.ws.pause();
    expect((await statusFrom(peer)).online).to.equal(false);
    const again = await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" });
    expect((await statusFrom(peer)).online).to.equal(true);
    for (let pings = 0; pings < 6; pings++) await new Promise((resolve) => again.ws.once("ping", resolve));
    expect(again.ws.readyState).to.equal(WebSocket.OPEN);
    socket.ws.terminate();
  });

  it("C68: passes nothing on that waited while it stood still", async () => {
    await restartWith({ pingMs: 100 });
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    await socket.next();
    const told = Promise.withResolvers<void>();
    const passedOn: string[] = [];
    socket.each(({ kind, payload }) => {
      if (kind === Kind.message) passedOn.push(Buffer.from(payload).toString());
      if (kind === Kind.close) told.resolve();
    });
    peer.send(writeFrame(Kind.message, 0, Buffer.from("late")));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
    expect((await peer.closed).code).to.equal(1006);
    await Promise.race([told.promise, socket.closed]);
    expect(passedOn).to.deep.equal([]);
  });

  it("C39: says 1001 to everyone when it stops, and they come back to the next one", async () => {
    const { sandboxId, pass, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await relay.stop();
    expect((await socket.closed).code).to.equal(1001);
    expect((await peer.closed).code).to.equal(1001);
    await relay.start();
    await connectSandbox({ url: relay.wsUrl, pass, bootId: "boot1" });
  });
});

describe("the relay's back-pressure", () => {
  let relay: RelayUnderTest;
  const start = async (stuckMs: number) => {
    relay = await startRelayForTest({ limits: { legBufferBytesMax: 512 * 1024, stuckMs } });
  };
  beforeEach(() => start(60_000));
  afterEach(() => relay.close());

  const chunk = (channel: number, n: number) =>
    writeDataFrame(channel, { stream: 1, position: n * 65_536, bytes: new Uint8Array(65_536) });

  /** Sends without regard for anything until what is not taken piles up here. Returns the bytes that were taken. */
  async function flood({ ws }: FrameSocket, channel: number, bytesMax: number): Promise<number> {
    let sent = 0;
    for (let n = 0; sent < bytesMax && ws.bufferedAmount < PILE_BYTES && ws.readyState === WebSocket.OPEN; n++) {
      ws.send(chunk(channel, n), { binary: true });
      sent += 65_536;
      await new Promise((resolve) => setImmediate(resolve));
    }
    return sent - ws.bufferedAmount;
  }

  it("takes no more from a sandbox than a peer reads, and goes on when the peer does", async () => {
    const { sandboxId, socket } = await onlineSandbox(relay);
    const slow = await attachPeer(relay, sandboxId);
    const { channel } = await socket.next();
    await statusFrom(slow);
    slow.ws.pause();
    const taken = await flood(socket, channel, 200 * 1024 * 1024);
    expect(taken).to.be.below(30 * 1024 * 1024);
    const frames = (taken + socket.ws.bufferedAmount) / 65_536;
    slow.ws.resume();
    for (let n = 0; n < Math.floor(frames); n++) {
      expect(Buffer.from((await slow.next()).payload).readBigUInt64BE(4)).to.equal(BigInt(n * 65_536));
    }
  });

  it("C50: cuts a peer that stays stuck, and goes on with the others", async () => {
    await relay.close();
    await start(50);
    const { sandboxId, socket } = await onlineSandbox(relay);
    const stuck = await attachPeer(relay, sandboxId);
    const { channel } = await socket.next();
    const other = await attachPeer(relay, sandboxId);
    const next = await socket.next();
    await statusFrom(other);
    stuck.ws.pause();
    await flood(socket, channel, 40 * 1024 * 1024);
    socket.send(writeFrame(Kind.message, next.channel, Buffer.from("after the flood")));
    const frame = await other.next();
    expect(Buffer.from(frame.payload).toString()).to.equal("after the flood");
    stuck.ws.resume();
    await stuck.closed;
  });

  it("a flooding sandbox neither grows the relay nor stops another sandbox", async () => {
    const flooder = await onlineSandbox(relay);
    const peer = await attachPeer(relay, flooder.sandboxId);
    const { channel } = await flooder.socket.next();
    peer.ws.pause();
    const flooding = flood(flooder.socket, channel, 200 * 1024 * 1024);
    const quiet = await onlineSandbox(relay);
    const quietPeer = await attachPeer(relay, quiet.sandboxId);
    const open = await quiet.socket.next();
    await statusFrom(quietPeer);
    for (let n = 0; n < 100; n++) {
      quietPeer.send(writeFrame(Kind.message, 0, Buffer.from(String(n))));
      quiet.socket.send(writeFrame(Kind.message, open.channel, (await quiet.socket.next()).payload));
      expect(Buffer.from((await quietPeer.next()).payload).toString()).to.equal(String(n));
    }
    expect(await flooding).to.be.below(30 * 1024 * 1024);
    peer.ws.terminate();
  });

  it("stops reading the peers of a sandbox that does not read", async () => {
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    socket.ws.pause();
    expect(await flood(peer, 0, 200 * 1024 * 1024)).to.be.below(30 * 1024 * 1024);
    socket.ws.terminate();
  });

  it("cuts a sandbox that does not read for too long", async () => {
    await relay.close();
    await start(50);
    const { sandboxId, socket } = await onlineSandbox(relay);
    const peer = await attachPeer(relay, sandboxId);
    await statusFrom(peer);
    socket.ws.pause();
    await flood(peer, 0, 40 * 1024 * 1024);
    expect((await statusFrom(peer)).online).to.equal(false);
    peer.send(writeFrame(Kind.message, 0, Buffer.from("to nobody")));
    socket.ws.resume();
    await socket.closed;
  });
});
