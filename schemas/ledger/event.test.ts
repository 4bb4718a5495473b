import { readdirSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { z } from "zod";
import { catalogue, isEventType, readEvent, UnknownEvent, writerOf } from "./event.ts";

const fixturesFolder = new URL("./fixtures/", import.meta.url);
const fixture = z.strictObject({ type: z.string(), version: z.number(), data: z.unknown() });

const fixtures = readdirSync(fixturesFolder).map((name) => ({
  name,
  stored: fixture.parse(JSON.parse(readFileSync(new URL(name, fixturesFolder), "utf8"))),
}));

describe("ledger events", () => {
  for (const { name, stored } of fixtures) {
    it(`reads the fixture ${name}`, () => {
      expect(name).to.equal(`${stored.type}.v${stored.version}.json`);
      const event = readEvent(stored);
      expect(event.type).to.equal(stored.type);
      if (isEventType(stored.type) && stored.version === catalogue[stored.type].version) {
        expect(event.data).to.deep.equal(stored.data);
      }
    });
  }

  it("have a fixture and a reader for every version of every type that was ever written", () => {
    const names = new Set(fixtures.map(({ name }) => name));
    for (const [type, { version, older }] of Object.entries(catalogue)) {
      const versions = Array.from({ length: version }, (_, index) => index + 1);
      expect(Object.keys(older).map(Number), type).to.deep.equal(versions.slice(0, -1));
      for (const each of versions) expect(names, "fixtures").to.include(`${type}.v${each}.json`);
    }
  });

  it("of a version or type that nobody wrote are refused as unknown, not as invalid", () => {
    for (const { stored } of fixtures) {
      expect(() => readEvent({ ...stored, version: 99 }), stored.type).to.throw(UnknownEvent, "No reader");
      expect(() => readEvent({ ...stored, version: 0 }), stored.type).to.throw(UnknownEvent, "No reader");
    }
    for (const type of ["NeverWritten", "constructor", "__proto__", ""]) {
      expect(() => readEvent({ type, version: 1, data: {} }), type).to.throw(UnknownEvent, "No event type");
    }
  });

  it("with a field that the schema does not know are refused", () => {
    for (const { stored } of fixtures) {
      const data = { ...z.record(z.string(), z.unknown()).parse(stored.data), surprise: true };
      expect(() => readEvent({ ...stored, data }), stored.type).to.throw(z.ZodError);
    }
  });

  it("each have one writer", () => {
    const writers = new Set(Object.keys(catalogue).map((type) => isEventType(type) && writerOf(type)));
    expect([...writers].sort()).to.deep.equal(["brain", "gateway", "publisher", "scheduler"]);
  });
});
