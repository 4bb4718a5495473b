import { expect } from "chai";
import { rangeOf } from "#shared/network/subnets.ts";
import { freeSubnets } from "./subnets.ts";

const used = (...cidrs: string[]) => cidrs.flatMap((cidr) => rangeOf(cidr) ?? []);
const free = (pool: string, start: number, ...taken: string[]) => [
  ...freeSubnets(pool, { prefix: 29, start, used: used(...taken) }),
];

describe("subnets for sandboxes", () => {
  it("are cut from the pool, from the start on and round to it again", () => {
    const subnets = ["192.0.2.0/29", "192.0.2.8/29", "192.0.2.16/29", "192.0.2.24/29"];
    expect(free("192.0.2.0/27", 0)).to.deep.equal(subnets);
    expect(free("192.0.2.0/27", 4_000_000_002)).to.deep.equal([...subnets.slice(2), ...subnets.slice(0, 2)]);
  });

  it("touch nothing that is in use, larger or smaller", () => {
    expect(free("192.0.2.0/27", 0, "192.0.2.8/30", "192.0.2.0/29")).to.deep.equal(["192.0.2.16/29", "192.0.2.24/29"]);
    expect(free("192.0.2.0/27", 0, "192.0.0.0/16")).to.deep.equal([]);
    expect(free("192.0.2.0/27", 0, "198.51.100.0/24", "2001:db8::/64")).to.have.lengthOf(4);
  });

  it("C122: are far more than thirty in the pool that is set when nothing else is", () => {
    let count = 0;
    for (const _ of freeSubnets("10.208.0.0/12", { prefix: 29, start: 17, used: used("172.17.0.0/16") })) count++;
    expect(count).to.equal(131_072);
  });

  it("are none in what is no pool, or a smaller one than they are", () => {
    expect(free("nonsense", 0)).to.deep.equal([]);
    expect(free("192.0.2.0/30", 0)).to.deep.equal([]);
    for (const cidr of ["192.0.2.0", "192.0.2.0/33", "192.0.2.256/29", "::/0"])
      expect(rangeOf(cidr)).to.equal(undefined);
  });
});
