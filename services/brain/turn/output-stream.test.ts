import { expect } from "chai";
import { LIVE_BURST_BYTES, LIVE_BYTES_PER_SECOND, type LiveOutput, OutputStream } from "./output-stream.ts";

describe("a command's live output", () => {
  function open() {
    const clock = { now: 0 };
    const published: LiveOutput[] = [];
    const stream = new OutputStream(
      (output) => published.push(output),
      () => clock.now,
    );
    return { clock, published, stream };
  }

  it("C83: passes on a character that is split across chunks, whole", () => {
    const { published, stream } = open();
    const bytes = new TextEncoder().encode("a€b😀c");
    for (const [position, byte] of bytes.entries()) stream.take({ position, bytes: Uint8Array.of(byte) });
    stream.end();
    expect(published.map(({ text }) => text).join("")).to.equal("a€b😀c");
    for (const { position, text } of published) {
      const length = new TextEncoder().encode(text).byteLength;
      expect(new TextDecoder().decode(bytes.subarray(position, position + length))).to.equal(text);
    }
  });

  it("C81: replaces what is no UTF-8 and goes on", () => {
    const { published, stream } = open();
    stream.take({ position: 0, bytes: Uint8Array.of(0x61, 0xff, 0x00, 0x62) });
    stream.end();
    expect(published.map(({ text }) => text).join("")).to.equal("a\ufffd\u0000b");
  });

  it("C84: counts what goes over its allowance instead of passing it on", () => {
    const { published, stream } = open();
    const chunk = new Uint8Array(100 * 1024).fill(0x61);
    const chunks = 1_000;
    for (let index = 0; index < chunks; index++) stream.take({ position: index * chunk.byteLength, bytes: chunk });
    stream.end();
    const shown = published.reduce((sum, { text }) => sum + text.length, 0);
    const skipped = published.reduce((sum, { skippedBytes }) => sum + skippedBytes, 0);
    expect(shown).to.equal(LIVE_BURST_BYTES);
    expect(shown + skipped).to.equal(chunks * chunk.byteLength);
  });

  it("goes on after a burst as time passes, and says where it is", () => {
    const { clock, published, stream } = open();
    stream.take({ position: 0, bytes: new Uint8Array(LIVE_BURST_BYTES + 10).fill(0x61) });
    clock.now = 1_000;
    stream.take({ position: LIVE_BURST_BYTES + 10, bytes: new Uint8Array(100).fill(0x62) });
    const last = published.at(-1);
    expect(last).to.deep.equal({ position: LIVE_BURST_BYTES + 10, text: "b".repeat(100), skippedBytes: 10 });
    expect(LIVE_BYTES_PER_SECOND).to.be.greaterThan(100);
  });

  it("counts a gap in what it is given", () => {
    const { published, stream } = open();
    stream.take({ position: 50, bytes: Uint8Array.of(0x61) });
    expect(published).to.deep.equal([{ position: 50, text: "a", skippedBytes: 50 }]);
  });
});
