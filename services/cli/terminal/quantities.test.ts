import { expect } from "chai";
import { bytesText, costText, durationText, plural, table } from "./quantities.ts";

describe("numbers for people", () => {
  it("give sizes in binary units", () => {
    expect([0, 1023, 1024, 1536, 1024 ** 2, 5 * 1024 ** 3].map(bytesText)).to.deep.equal([
      "0 B",
      "1023 B",
      "1.0 KiB",
      "1.5 KiB",
      "1.0 MiB",
      "5.0 GiB",
    ]);
  });

  it("give durations in the unit that fits", () => {
    expect([0.4, 999, 1_500, 59_900, 61_000].map(durationText)).to.deep.equal([
      "0 ms",
      "999 ms",
      "1.5 s",
      "59.9 s",
      "1 min 1 s",
    ]);
  });

  it("tell a cost that is only partly known from one that is nothing", () => {
    expect(costText(0, true)).to.equal("no cost");
    expect(costText(0, false)).to.equal("cost unknown");
    expect(costText(0.00123, true)).to.equal("$0.0012");
    expect(costText(1.5, false)).to.equal("at least $1.50");
  });

  it("count nouns and line columns up", () => {
    expect(plural(1, "call")).to.equal("1 call");
    expect(plural(2, "call")).to.equal("2 calls");
    expect(
      table([
        ["A", "BB"],
        ["long", "c"],
      ]),
    ).to.equal("A     BB\nlong  c\n");
  });
});
