import { expect } from "chai";
import { openRandom } from "./random.ts";

describe("chance", () => {
  const draw = (seed: number) => {
    const random = openRandom(seed);
    return Array.from({ length: 50 }, () => random.between(1, 6));
  };

  it("is the same for the same seed and another for another", () => {
    expect(draw(7)).to.deep.equal(draw(7));
    expect(draw(7)).not.to.deep.equal(draw(8));
  });

  it("stays within its bounds and reaches both", () => {
    expect(new Set(draw(7))).to.deep.equal(new Set([1, 2, 3, 4, 5, 6]));
  });

  it("shuffles without losing anything", () => {
    const list = Array.from({ length: 20 }, (_, index) => index);
    const shuffled = openRandom(3).shuffled(list);
    expect(shuffled).not.to.deep.equal(list);
    expect(shuffled.toSorted((one, other) => one - other)).to.deep.equal(list);
  });
});
