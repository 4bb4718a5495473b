import { expect } from "chai";
import { clientFrame, type FrameShape } from "../tests/client-frames.ts";
import {
  Breach,
  CONTROL_BYTES_MAX,
  FRAGMENTS_MAX,
  type Message,
  Opcode,
  PIECES_MAX,
  WebSocketBreach,
  WebSocketReader,
} from "./reader.ts";

const BYTES_MAX = 200_000;
const { binary, continuation, text, ping, pong, close } = Opcode;

function reading() {
  const seen: string[] = [];
  const messages: Message[] = [];
  const reader = new WebSocketReader(
    {
      message: (message) => {
        messages.push(message);
        seen.push(`${message.isBinary ? "binary" : "text"} ${Buffer.concat(message.pieces).toString()}`);
      },
      ping: (payload) => seen.push(`ping ${payload.toString()}`),
      pong: () => seen.push("pong"),
      close: () => seen.push("close"),
    },
    BYTES_MAX,
  );
  return { reader, seen, messages };
}

const stream = Buffer.concat([
  clientFrame({ opcode: binary, payload: Buffer.from("one") }),
  clientFrame({ opcode: ping, payload: Buffer.from("there?") }),
  clientFrame({ opcode: text, payload: Buffer.from("zwei") }),
  clientFrame({ opcode: binary, payload: Buffer.alloc(300, "x"), isLast: false }),
  clientFrame({ opcode: pong }),
  clientFrame({ opcode: continuation, payload: Buffer.alloc(0), isLast: false }),
  clientFrame({ opcode: continuation, payload: Buffer.from("end") }),
  clientFrame({ opcode: binary }),
  clientFrame({ opcode: close, payload: Buffer.from([3, 232]) }),
  clientFrame({ opcode: binary, payload: Buffer.from("after the goodbye") }),
]);
const inOrder = [
  ...["binary one", "ping there?", "text zwei", "pong", `binary ${"x".repeat(300)}end`, "binary ", "close"],
];

describe("the reader of a WebSocket", () => {
  it("cuts the same messages wherever the bytes are split", () => {
    for (let at = 0; at <= stream.byteLength; at++) {
      const { reader, seen } = reading();
      const copy = Buffer.from(stream);
      reader.push(copy.subarray(0, at));
      reader.push(copy.subarray(at));
      expect(seen, `split at ${at}`).to.deep.equal(inOrder);
    }
  });

  it("reads one byte at a time", () => {
    const { reader, seen } = reading();
    for (const byte of stream) reader.push(Buffer.from([byte]));
    expect(seen).to.deep.equal(inOrder);
  });

  it("copies nothing of a large message", () => {
    const { reader, messages } = reading();
    const frame = clientFrame({ opcode: binary, payload: Buffer.alloc(150_000, "y") });
    const chunks = [Buffer.from(frame.subarray(0, 65_536)), Buffer.from(frame.subarray(65_536))];
    for (const chunk of chunks) reader.push(chunk);
    const pieces = messages[0]?.pieces ?? [];
    expect(pieces.map(({ buffer }, at) => buffer === chunks[at]?.buffer)).to.deep.equal([true, true]);
    expect(Buffer.concat(pieces).equals(Buffer.alloc(150_000, "y"))).to.equal(true);
  });

  it("does not hold on to all that was read for the sake of a small message in it", () => {
    const { reader, messages } = reading();
    const pings = Buffer.concat(Array.from({ length: 500 }, () => clientFrame({ opcode: ping })));
    reader.push(Buffer.concat([clientFrame({ opcode: binary, payload: Buffer.from("small") }), pings]));
    expect(messages[0]?.pieces.map(({ buffer }) => buffer.byteLength)).to.deep.equal([5]);
  });

  it("does not hold a crumb for each byte of a message that comes in crumbs", () => {
    const { reader, messages } = reading();
    const payload = Buffer.from(Array.from({ length: 20_000 }, (_, at) => at & 0xff));
    const parts = [
      clientFrame({ opcode: binary, payload: payload.subarray(0, 9_000), isLast: false }),
      clientFrame({ opcode: continuation, payload: payload.subarray(9_000) }),
    ];
    for (const byte of Buffer.concat(parts)) reader.push(Buffer.from([byte]));
    expect(messages[0]?.pieces.length).to.be.at.most(PIECES_MAX);
    expect(Buffer.concat(messages[0]?.pieces ?? []).equals(payload)).to.equal(true);
  });

  it("takes the largest message, and the most parts", () => {
    const { reader, seen } = reading();
    reader.push(clientFrame({ opcode: binary, payload: Buffer.alloc(BYTES_MAX) }));
    reader.push(clientFrame({ opcode: binary, isLast: false }));
    for (let part = 2; part < FRAGMENTS_MAX; part++) reader.push(clientFrame({ opcode: continuation, isLast: false }));
    reader.push(clientFrame({ opcode: continuation }));
    expect(seen.length).to.equal(2);
  });

  const half = Buffer.alloc(BYTES_MAX / 2 + 1);
  const breaches: ReadonlyArray<[string, number, FrameShape[]]> = [
    ["a frame without a mask", Breach.protocol, [{ opcode: binary, masked: false, payload: Buffer.from("x") }]],
    ["an empty frame without a mask", Breach.protocol, [{ opcode: binary, masked: false }]],
    ["the bit of an extension", Breach.protocol, [{ opcode: binary, reserved: 4 }]],
    ["data of an unknown kind", Breach.protocol, [{ opcode: 3 }]],
    ["a control frame of an unknown kind", Breach.protocol, [{ opcode: 11 }]],
    ["a ping in parts", Breach.protocol, [{ opcode: ping, isLast: false }]],
    ["a ping that is too large", Breach.protocol, [{ opcode: ping, payload: Buffer.alloc(CONTROL_BYTES_MAX + 1) }]],
    ["a continuation of nothing", Breach.protocol, [{ opcode: continuation }]],
    ["a message inside another", Breach.protocol, [{ opcode: binary, isLast: false }, { opcode: binary }]],
    ["a message that is announced too large", Breach.tooLarge, [{ opcode: binary, announced: BigInt(BYTES_MAX + 1) }]],
    ["the largest number there is", Breach.tooLarge, [{ opcode: binary, announced: 2n ** 64n - 1n }]],
    [
      "a message whose parts are too large together",
      Breach.tooLarge,
      [
        { opcode: binary, isLast: false, payload: half },
        { opcode: continuation, payload: half },
      ],
    ],
    [
      "a message in too many parts",
      Breach.tooLarge,
      [
        { opcode: binary, isLast: false },
        ...Array.from({ length: FRAGMENTS_MAX }, () => ({ opcode: continuation, isLast: false })),
      ],
    ],
  ];
  for (const [what, code, frames] of breaches) {
    it(`refuses ${what}`, () => {
      const { reader, seen } = reading();
      const push = () => reader.push(Buffer.concat(frames.map(clientFrame)));
      expect(push).to.throw(WebSocketBreach).with.property("code", code);
      expect(seen).to.deep.equal([]);
    });
  }
});
