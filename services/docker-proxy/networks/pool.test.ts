import { expect } from "chai";
import { poolCheck } from "./pool.ts";

describe("the pool of sandbox networks", () => {
  const isInPool = poolCheck("10.208.0.0/12");

  for (const subnet of ["10.208.0.0/29", "10.208.0.8/29", "10.223.255.248/29", "10.208.0.0/12"]) {
    it(`holds ${subnet}`, () => expect(isInPool(subnet)).to.equal(true));
  }
  for (const subnet of ["10.207.255.248/29", "10.224.0.0/29", "10.192.0.0/11", "0.0.0.0/0", "192.168.0.0/29"]) {
    it(`does not hold ${subnet}`, () => expect(isInPool(subnet)).to.equal(false));
  }
  it("takes a subnet by its first address only", () => expect(isInPool("10.208.0.1/29")).to.equal(false));
});
