import { expect } from "chai";
import { wronglyParked } from "./parked.ts";

describe("what was parked", () => {
  it("is found, but for what was given up after many attempts", () => {
    const item = { subject: "parked.REPORTS.scheduler", code: "queue_attempts", reason: "Given up after 20 attempts" };
    expect(wronglyParked([])).to.deep.equal([]);
    expect(wronglyParked([item])).to.deep.equal([]);
    expect(wronglyParked([item, { ...item, code: "internal" }]).map(({ of }) => of)).to.deep.equal(["rest"]);
  });
});
