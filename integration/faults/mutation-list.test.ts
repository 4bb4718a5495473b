import { readFileSync } from "node:fs";
import { expect } from "chai";
import { MUTATIONS } from "./mutation-list.ts";

const ROOT = new URL("../../", import.meta.url);
const textOf = (file: string) => readFileSync(new URL(file, ROOT), "utf8");

describe("the mutations", () => {
  it("switch off each invariant", () => {
    const invariants = new Set(MUTATIONS.map(({ invariant }) => invariant));
    expect([...invariants]).to.deep.equal(["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"]);
  });

  for (const { invariant, file, from, tests, named } of MUTATIONS) {
    it(`find their line once and a test that is named for it: ${invariant} in ${file}`, () => {
      expect(textOf(file).split(from), from).to.have.length(2);
      const titles = textOf(tests).match(/\bit\([^\n]+/g) ?? [];
      expect(titles.filter((title) => new RegExp(`\\b${named}\\b`).test(title))).to.not.deep.equal([]);
    });
  }
});
