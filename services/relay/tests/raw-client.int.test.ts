// The relay against a client that speaks the bytes of a WebSocket by hand.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect } from "chai";
import { FRAME_BYTES_MAX, Kind, SUBPROTOCOL, writeFrame } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER, relayPaths } from "#schemas/wire/relay-http.ts";
import { clientFrame, Opcode } from "./client-frames.ts";
import { adminKey, joinSandbox, type RelayUnderTest, startRelayForTest } from "./relay-under-test.ts";

const PONG_BYTES = 127;
/** Of a thousand pings: their answers are much more than the kernel holds. */
const BATCHES = 200;

type RawClient = Readonly<{ socket: Socket; sandboxId: string; read: (size: number) => Promise<Buffer> }>;

describe("a client of the relay that speaks the bytes itself", () => {
  let relay: RelayUnderTest;
  beforeEach(async () => {
    relay = await startRelayForTest({ limits: { legBufferBytesMax: 256 * 1024, closeMs: 100 } });
  });
  afterEach(() => relay.close());

  async function dial(path: string, headers: Record<string, string>): Promise<Omit<RawClient, "sandboxId">> {
    const socket = connect(Number(new URL(relay.url).port), "127.0.0.1");
    relay.resources.add("raw client", socket, (it) => void it.destroy());
    socket.on("error", () => undefined);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    socket.write([`GET ${path} HTTP/1.1`, "Host: relay", ...lines, "\r\n"].join("\r\n"));
    return { socket, read: taking(socket) };
  }

  const handshake = (bearer: string) => ({
    Upgrade: "websocket",
    Connection: "Upgrade",
    "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": SUBPROTOCOL,
    Authorization: `Bearer ${bearer}`,
  });

  async function sandbox(): Promise<RawClient> {
    const { sandboxId, pass } = await joinSandbox(relay);
    const client = await dial(relayPaths.connect, { ...handshake(pass), [BOOT_ID_HEADER]: "boot1" });
    expect(await readHead(client)).to.match(/^HTTP\/1\.1 101 /);
    return { ...client, sandboxId };
  }

  async function peer(sandboxId: string): Promise<Omit<RawClient, "sandboxId">> {
    const client = await dial(relayPaths.attach(sandboxId), handshake(adminKey));
    expect(await readHead(client)).to.match(/^HTTP\/1\.1 101 /);
    expect((await nextFrame(client)).payload[0]).to.equal(Kind.status);
    return client;
  }

  it("answers the handshake of RFC 6455 as it says", async () => {
    const { sandboxId } = await sandbox();
    const headers = { ...handshake(adminKey), "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==" };
    const head = await readHead(await dial(relayPaths.attach(sandboxId), headers));
    expect(head).to.include("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    expect(head).to.include(`\r\nSec-WebSocket-Protocol: ${SUBPROTOCOL}\r\n`);
  });

  for (const [name, value] of [
    ["Sec-WebSocket-Version", "7"],
    ["Sec-WebSocket-Key", "short"],
  ] as const) {
    it(`refuses a handshake whose ${name} is ${value}`, async () => {
      const { sandboxId } = await sandbox();
      const client = await dial(relayPaths.attach(sandboxId), { ...handshake(adminKey), [name]: value });
      expect(await readHead(client)).to.match(/^HTTP\/1\.1 400 /);
    });
  }

  it("has a frame in fragments, with a ping in between, passed on as one", async () => {
    const guest = await sandbox();
    const reader = await peer(guest.sandboxId);
    const open = (await nextFrame(guest)).payload;
    const frame = writeFrame(Kind.message, open.readUInt32BE(1), Buffer.from("in parts"));
    guest.socket.write(clientFrame({ opcode: Opcode.binary, payload: frame.subarray(0, 3), isLast: false }));
    guest.socket.write(clientFrame({ opcode: Opcode.ping, payload: Buffer.from("hm") }));
    expect(await nextFrame(guest)).to.deep.equal({ opcode: Opcode.pong, payload: Buffer.from("hm") });
    guest.socket.write(clientFrame({ opcode: Opcode.continuation, payload: frame.subarray(3) }));
    const passed = await nextFrame(reader);
    expect(passed).to.deep.equal({
      opcode: Opcode.binary,
      payload: Buffer.from(writeFrame(Kind.message, 0, Buffer.from("in parts"))),
    });
  });

  it("passes on frames of every length that is written in another way", async () => {
    const guest = await sandbox();
    const reader = await peer(guest.sandboxId);
    const channel = (await nextFrame(guest)).payload.readUInt32BE(1);
    for (const size of [0, 120, 121, 65_530, 65_531, FRAME_BYTES_MAX - 5]) {
      const payload = randomBytes(size);
      guest.socket.write(clientFrame({ opcode: Opcode.binary, payload: writeFrame(Kind.data, channel, payload) }));
      const passed = await nextFrame(reader);
      expect(passed.payload.equals(Buffer.from(writeFrame(Kind.data, 0, payload))), String(size)).to.equal(true);
    }
  });

  it("is told why when it breaks the protocol, and cut when it does not go", async () => {
    const { socket, read } = await sandbox();
    socket.write(clientFrame({ opcode: Opcode.binary, masked: false }));
    const { opcode, payload } = await nextFrame({ read });
    expect([opcode, payload.readUInt16BE(0)]).to.deep.equal([Opcode.close, 1002]);
    await once(socket, "close");
  });

  it("gets its goodbye answered, and the connection ended", async () => {
    const { socket, read } = await sandbox();
    socket.write(clientFrame({ opcode: Opcode.close, payload: Buffer.from([3, 232]) }));
    expect(await nextFrame({ read })).to.deep.equal({ opcode: Opcode.close, payload: Buffer.from([3, 232]) });
    await once(socket, "end");
  });

  it("cannot make the relay pile up answers to pings that it does not read", async () => {
    const { socket, sandboxId } = await sandbox();
    socket.pause();
    const ping = clientFrame({ opcode: Opcode.ping, payload: Buffer.alloc(125, "p") });
    const pings = Buffer.concat(Array.from({ length: 1_000 }, () => ping));
    for (let batch = 0; batch < BATCHES; batch++) {
      if (!socket.write(pings)) await once(socket, "drain");
    }
    const open = await peer(sandboxId);
    open.socket.write(clientFrame({ opcode: Opcode.ping, payload: Buffer.from("last") }));
    expect((await nextFrame(open)).payload.toString()).to.equal("last");
    let answered = 0;
    socket.on("data", (chunk: Buffer) => {
      answered += chunk.byteLength;
    });
    socket.end(clientFrame({ opcode: Opcode.close }));
    socket.resume();
    await once(socket, "close");
    // What the kernel's buffers and the relay's bound hold, and no more.
    expect(answered)
      .to.be.above(PONG_BYTES)
      .and.below((BATCHES * 1_000 * PONG_BYTES) / 2);
  });
});

/** Takes what comes, so that a test can ask for so many bytes of it. */
function taking(socket: Socket): (size: number) => Promise<Buffer> {
  let waiting = Buffer.alloc(0);
  let isOver = false;
  let wake: () => void = () => undefined;
  socket.on("data", (chunk: Buffer) => {
    waiting = Buffer.concat([waiting, chunk]);
    wake();
  });
  socket.on("close", () => {
    isOver = true;
    wake();
  });
  return async (size) => {
    while (waiting.byteLength < size) {
      if (isOver) throw new Error("The connection ended early");
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    const taken = waiting.subarray(0, size);
    waiting = waiting.subarray(size);
    return taken;
  };
}

async function readHead({ read }: Pick<RawClient, "read">): Promise<string> {
  let head = "";
  while (!head.endsWith("\r\n\r\n")) head += (await read(1)).toString("latin1");
  return head;
}

async function nextFrame({ read }: Pick<RawClient, "read">): Promise<{ opcode: number; payload: Buffer }> {
  const [first = 0, second = 0] = await read(2);
  const length =
    second === 127
      ? Number((await read(8)).readBigUInt64BE())
      : second === 126
        ? (await read(2)).readUInt16BE()
        : second;
  return { opcode: first & 0x0f, payload: await read(length) };
}
