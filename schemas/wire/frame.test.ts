import { expect } from "chai";
import {
  DATA_BYTES_MAX,
  DATA_HEADER_BYTES,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  FrameError,
  Kind,
  readCredit,
  readData,
  readFrame,
  writeCreditFrame,
  writeDataFrame,
  writeFrame,
} from "./frame.ts";

const CHANNELS = [0, 1, 255, 256, 0x7fffffff, 0xffffffff];
const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index);

describe("wire frames", () => {
  it("give back kind, channel and payload, for every kind and the ends of the channel's range", () => {
    for (const kind of Object.values(Kind)) {
      for (const channel of CHANNELS) {
        const frame = readFrame(writeFrame(kind, channel, allBytes));
        expect(frame).to.deep.equal({ kind, channel, payload: allBytes });
      }
    }
  });

  it("are laid out as documented: kind, channel in network order, payload", () => {
    expect([...writeFrame(Kind.message, 0x01020304, Uint8Array.of(9))]).to.deep.equal([1, 1, 2, 3, 4, 9]);
    expect([...writeCreditFrame(2, 3, 0x00010000)]).to.deep.equal([3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 0]);
  });

  it("are read in place from the middle of a larger buffer", () => {
    const buffer = Buffer.concat([
      Buffer.alloc(7, 0xff),
      writeFrame(Kind.message, 5, Uint8Array.of(1, 2)),
      Buffer.alloc(3),
    ]);
    const view = buffer.subarray(7, 7 + FRAME_HEADER_BYTES + 2);
    const frame = readFrame(view);
    expect(frame.channel).to.equal(5);
    expect([...frame.payload]).to.deep.equal([1, 2]);
    expect(frame.payload.buffer).to.equal(view.buffer);
  });

  it("may have no payload, and a kind that this version does not know is handed on", () => {
    expect(readFrame(Uint8Array.of(200, 0, 0, 0, 1))).to.deep.equal({
      kind: 200,
      channel: 1,
      payload: new Uint8Array(),
    });
  });

  it("that are cut short or over the limit are refused", () => {
    for (let length = 0; length < FRAME_HEADER_BYTES; length++) {
      expect(() => readFrame(new Uint8Array(length))).to.throw(FrameError, "no header");
    }
    expect(readFrame(new Uint8Array(FRAME_BYTES_MAX)).channel).to.equal(0);
    expect(() => readFrame(new Uint8Array(FRAME_BYTES_MAX + 1))).to.throw(FrameError, "too large");
  });

  it("C83: carry bytes that are no text, also half a character", () => {
    const half = new TextEncoder().encode("é").subarray(0, 1);
    const data = readData(readFrame(writeDataFrame(1, { stream: 1, position: 0, bytes: half })).payload);
    expect([...data.bytes]).to.deep.equal([...half]);
  });

  it("of data keep stream and position up to the largest safe integer", () => {
    for (const position of [0, 1, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
      const frame = readFrame(writeDataFrame(7, { stream: 0xffffffff, position, bytes: allBytes }));
      expect(frame.kind).to.equal(Kind.data);
      expect(frame.channel).to.equal(7);
      expect(readData(frame.payload)).to.deep.equal({ stream: 0xffffffff, position, bytes: allBytes });
    }
  });

  it("of data end a stream when they hold no bytes", () => {
    const frame = readFrame(writeDataFrame(1, { stream: 2, position: 10, bytes: new Uint8Array() }));
    expect(readData(frame.payload).bytes.byteLength).to.equal(0);
  });

  it("of data with a position that no number holds, or cut short, are refused", () => {
    const payload = new Uint8Array(DATA_HEADER_BYTES).fill(0xff);
    expect(() => readData(payload)).to.throw(FrameError, "out of range");
    for (let length = 0; length < DATA_HEADER_BYTES; length++) {
      expect(() => readData(new Uint8Array(length))).to.throw(FrameError, "no header");
    }
  });

  it("of credit give back stream and bytes; any other length is refused", () => {
    const frame = readFrame(writeCreditFrame(3, 0xffffffff, 0xffffffff));
    expect(frame).to.include({ kind: Kind.credit, channel: 3 });
    expect(readCredit(frame.payload)).to.deep.equal({ stream: 0xffffffff, bytes: 0xffffffff });
    for (const length of [0, 7, 9, 16]) expect(() => readCredit(new Uint8Array(length))).to.throw(FrameError);
  });

  it("hold the largest data there is", () => {
    const bytes = new Uint8Array(DATA_BYTES_MAX);
    const frame = writeDataFrame(1, { stream: 1, position: 0, bytes });
    expect(frame.byteLength).to.be.at.most(FRAME_BYTES_MAX);
    expect(readData(readFrame(frame).payload).bytes.byteLength).to.equal(DATA_BYTES_MAX);
  });

  it("of random bytes are read or refused, never anything else", () => {
    let seed = 1;
    const random = () => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      return seed >>> 24;
    };
    for (let round = 0; round < 2_000; round++) {
      const bytes = Uint8Array.from({ length: random() % 40 }, random);
      expect(() => readOrRefuse(bytes)).not.to.throw();
    }
  });
});

function readOrRefuse(bytes: Uint8Array): void {
  try {
    const { payload } = readFrame(bytes);
    readData(payload);
    readCredit(payload);
  } catch (error) {
    if (!(error instanceof FrameError)) throw error;
  }
}
