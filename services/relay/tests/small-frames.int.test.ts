// The smallest frames take far more memory than they have bytes.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { WebSocket } from "ws";
import { Kind, SUBPROTOCOL, writeFrame } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER, relayPaths } from "#schemas/wire/relay-http.ts";
import { opened, wireOptions } from "#shared/testing/sandbox-peer.ts";
import { adminKey, joinSandbox, type RelayUnderTest, startRelayForTest } from "./relay-under-test.ts";

const MIB = 1024 * 1024;
const KEPT_MIB_MAX = 32;
const STOPPED_MS = 4_000;
/** In the kernel's own buffers there is room for far less. */
const FRAMES = 2_000_000;

describe("a sandbox that sends the smallest frames to a peer that does not read", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest({ limits: { stuckMs: 60_000 } });
  });
  afterEach(() => relay.close());

  it("is not read any more before they take much of the relay's memory", async () => {
    const { sandboxId, pass } = await joinSandbox(relay);
    const headers = { authorization: `Bearer ${adminKey}` };
    const peer = new WebSocket(relay.wsUrl + relayPaths.attach(sandboxId), [SUBPROTOCOL], { ...wireOptions, headers });
    await opened(peer);
    peer.pause();
    const sandbox = await upgraded(connect(Number(new URL(relay.url).port), "127.0.0.1"), pass);
    const frame = writeFrame(Kind.credit, 1, new Uint8Array(0));
    // With a mask of zeros, which changes nothing.
    const masked = Buffer.concat([Buffer.from([0x82, 0x80 | frame.byteLength, 0, 0, 0, 0]), frame]);
    const many = Buffer.alloc(masked.byteLength * 10_000, masked);
    expect((await keptAfter(sandbox, many)) / MIB).to.be.lessThan(KEPT_MIB_MAX);
    sandbox.destroy();
    peer.terminate();
  });
});

describe("a sandbox that sends the smallest pings and does not read", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest({ limits: { framesPerSecond: 10_000_000, frameBurst: 10_000_000 } });
  });
  afterEach(() => relay.close());

  it("is not answered any more before the answers take much of the relay's memory", async () => {
    const { sandboxId, pass } = await joinSandbox(relay);
    const sandbox = await upgraded(connect(relay.socketOf(sandboxId)), pass);
    sandbox.pause();
    const ping = Buffer.from([0x89, 0x80, 0, 0, 0, 0]);
    const many = Buffer.alloc(ping.byteLength * 10_000, ping);
    expect((await keptAfter(sandbox, many)) / MIB).to.be.lessThan(KEPT_MIB_MAX);
    sandbox.destroy();
  });
});

async function upgraded(socket: Socket, pass: string): Promise<Socket> {
  const lines = [
    ...[`GET ${relayPaths.connect} HTTP/1.1`, "host: relay", "connection: Upgrade", "upgrade: websocket"],
    ...["sec-websocket-version: 13", "sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg=="],
    ...[`sec-websocket-protocol: ${SUBPROTOCOL}`, `authorization: Bearer ${pass}`, `${BOOT_ID_HEADER}: boot1`],
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  await once(socket, "data");
  return socket;
}

/** What the relay keeps of so many frames, `many` at a time, or of those that it reads. */
async function keptAfter(sandbox: Socket, many: Buffer): Promise<number> {
  const before = keptBytes();
  for (let sent = 0; sent < FRAMES && (await isTaken(sandbox, many)); sent += 10_000);
  return keptBytes() - before - sandbox.writableLength;
}

/** Whether the other side goes on reading. */
async function isTaken(socket: Socket, bytes: Buffer): Promise<boolean> {
  if (socket.write(bytes)) return true;
  return once(socket, "drain", { signal: AbortSignal.timeout(STOPPED_MS) }).then(
    () => true,
    () => false,
  );
}

function keptBytes(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const { heapUsed, arrayBuffers, external } = process.memoryUsage();
  return heapUsed + arrayBuffers + external;
}
