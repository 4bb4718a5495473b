import { expect } from "chai";
import { globMatcher } from "./glob.ts";

const rows: Array<[glob: string, path: string, matches: boolean]> = [
  ["*.ts", "a.ts", true],
  ["*.ts", "deep/inner/a.ts", true],
  ["*.ts", "a.tsx", false],
  ["src/*.ts", "src/a.ts", true],
  ["src/*.ts", "src/inner/a.ts", false],
  ["**/*.ts", "a.ts", true],
  ["**/*.ts", "x/y/a.ts", true],
  ["src/**", "src/x/y", true],
  ["src/**/test/*.js", "src/test/a.js", true],
  ["src/**/test/*.js", "src/a/b/test/a.js", true],
  ["*.{ts,js}", "a.js", true],
  ["*.{ts,js}", "a.css", false],
  ["a,b", "a,b", true],
  ["file?.txt", "file1.txt", true],
  ["file?.txt", "file10.txt", false],
  ["[ab].txt", "b.txt", true],
  ["[!ab].txt", "b.txt", false],
  ["a+(b).txt", "a+(b).txt", true],
  ["a.b", "axb", false],
];

describe("a glob", () => {
  for (const [glob, path, matches] of rows) {
    it(`${glob} ${matches ? "matches" : "does not match"} ${path}`, () => {
      expect(globMatcher(glob)(path)).to.equal(matches);
    });
  }

  it("with brackets that do not fit still makes a matcher", () => {
    for (const glob of ["{a", "a}", "[", "]", "[a", "{a,{b,c}}", "\\", "**", "("]) {
      expect(globMatcher(glob)("nothing-of-it")).to.be.a("boolean");
    }
    expect(() => globMatcher("[z-a]"))
      .to.throw()
      .with.property("code", "bad_pattern");
  });
});
