import { expect } from "chai";
import { unmask } from "./unmask.ts";

describe("unmask", () => {
  const mask = Buffer.from([0x00, 0xff, 0x13, 0xa7]);

  it("takes the mask off wherever the bytes lie in memory and in their frame", () => {
    const memory = Buffer.from(Array.from({ length: 64 }, (_, at) => (at * 37) & 0xff));
    for (let start = 0; start < 9; start++) {
      for (const size of [0, 1, 7, 8, 9, 16, 31]) {
        for (let offset = 0; offset < 5; offset++) {
          const copy = Buffer.from(memory);
          const bytes = copy.subarray(start, start + size);
          const wanted = Buffer.from(memory);
          for (let at = 0; at < size; at++) {
            wanted[start + at] = (memory[start + at] ?? 0) ^ (mask[(offset + at) % 4] ?? 0);
          }
          unmask(bytes, mask, offset);
          expect(copy, `${start} ${size} ${offset}`).to.deep.equal(wanted);
        }
      }
    }
  });
});
