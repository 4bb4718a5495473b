import { expect } from "chai";
import { ledgerSubject, shardOf } from "./subjects.ts";

describe("ledger subjects", () => {
  it("put a session into the shard that it always had", () => {
    // Written down: another hash would split every session that exists into two subjects.
    const shards = ["ses_01kb3x8v5m2n4p6q8r0s2t4v6w", "install", "ses_0", ""].map((session) => shardOf(session, 8));
    expect(shards).to.deep.equal([7, 0, 5, 5]);
    expect(ledgerSubject("install", 8)).to.equal(`ledger.${shardOf("install", 8)}.install`);
  });

  it("spread sessions over all shards about evenly", () => {
    const counts = new Array(8).fill(0);
    for (let index = 0; index < 8_000; index++) counts[shardOf(`ses_${index}`, 8)]++;
    expect(Math.min(...counts)).to.be.greaterThan(800);
    expect(Math.max(...counts)).to.be.lessThan(1_200);
  });
});
