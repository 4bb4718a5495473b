// Cases from the field that this product has to get right, each with a test that names it in its title (`C25: ...`).
// The list grows with what is built; a case that is named nowhere any more turns this red.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "chai";

const ROOT = resolve(import.meta.dirname, "..");
const TITLE = /\b(?:it|describe)\(\s*(["'`])((?:(?!\1)[^\\]|\\.)*)\1/g;

const SHOWN: Readonly<Record<string, readonly number[]>> = {
  "crash, take-over and unknown outcome": [17, 18, 20, 21, 23, 24, 25],
  "reconnect and streaming transport": [39, 42, 43, 45, 46, 48, 50],
  "stop, steer and queue": [63, 65, 67, 68],
  "commands and processes": [69, 72, 73, 75, 76, 77, 78, 79],
  "output and encoding": [81, 83, 84, 85, 88, 90],
  "secrets, network and isolation": [110, 113, 116, 117, 119, 121],
  infrastructure: [59, 62, 122, 123, 124, 125, 127],
  "models and conversations": [128, 130],
  "the bus and the ledger": [134, 136, 138, 140],
};

/** They wait for approvals and for agents that start agents. */
const WAITING = [27, 28];

function titles(): string[] {
  return ["schemas", "shared", "services", "integration"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(test|contract)\.ts$/.test(file) && file !== "cases.test.ts")
      .flatMap((file) => [...readFileSync(join(ROOT, folder, file), "utf8").matchAll(TITLE)])
      .map(([, , title]) => title ?? ""),
  );
}

describe("the cases from the field", () => {
  const named = new Set(
    titles().flatMap((title) => [...title.matchAll(/\bC(\d+)\b/g)].map(([, number]) => Number(number))),
  );

  for (const [part, cases] of Object.entries(SHOWN)) {
    it(`have a test by name: ${part}`, () => {
      expect(cases.filter((number) => !named.has(number)).map((number) => `C${number}`)).to.deep.equal([]);
    });
  }

  it("are in the list above as soon as they are shown", () => {
    expect(WAITING.filter((number) => named.has(number)).map((number) => `C${number}`)).to.deep.equal([]);
  });
});
