import { expect } from "chai";
import { SandboxBreach } from "./breach.ts";
import { Incoming } from "./incoming.ts";
import type { OutputChunk } from "./link.ts";
import { MIB } from "./link-under-test.ts";

describe("an output that nobody reads yet", () => {
  let incoming: Incoming;
  beforeEach(() => {
    incoming = new Incoming({ start: 0, mayJump: true });
    incoming.attach(() => undefined);
  });
  const bytes = (...values: number[]) => Buffer.from(values);

  for (const run of [1, 2]) {
    it(`takes no more than a few times its bytes when it leaves some out after every ${run}`, () => {
      const before = process.memoryUsage().arrayBuffers;
      for (let piece = 0; piece < 5_000; piece++) {
        for (let n = 0; n < run; n++) incoming.receive(piece * 10 + n, bytes(n));
      }
      expect((process.memoryUsage().arrayBuffers - before) / MIB).to.be.below(8);
    });
  }

  it("may not leave some out without end", () => {
    const leaveOut = () => {
      for (let piece = 0; piece < 20_000; piece++) incoming.receive(piece * 10, bytes(0));
    };
    expect(leaveOut).to.throw(SandboxBreach);
  });

  it("comes as it was sent, small pieces copied together", async () => {
    const frame = bytes(0);
    incoming.receive(0, frame);
    frame[0] = 9;
    for (let n = 1; n < 200; n++) incoming.receive(n, bytes(n));
    incoming.receive(300, bytes(1, 2));
    incoming.receive(302, new Uint8Array(40_000).fill(3));
    incoming.receive(40_302, bytes(4));
    incoming.finish();
    const taken: OutputChunk[] = [];
    for (let chunk = await incoming.take(); chunk !== undefined; chunk = await incoming.take()) taken.push(chunk);
    expect(taken.map(({ position, bytes: { byteLength } }) => [position, byteLength])).to.deep.equal([
      [0, 200],
      [300, 2],
      [302, 40_000],
      [40_302, 1],
    ]);
    const content = (piece: number) => [...(taken[piece]?.bytes ?? [])];
    expect(content(0)).to.deep.equal(Array.from({ length: 200 }, (_, n) => n));
    expect([content(1), content(3)]).to.deep.equal([[1, 2], [4]]);
  });
});
