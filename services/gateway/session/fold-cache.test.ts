import { expect } from "chai";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { appendMany, causeOf, posted, versionOf } from "#shared/testing/messages.ts";
import { FoldCache } from "./fold-cache.ts";

const countMessages = (entriesMax: number) => new FoldCache<number>(entriesMax, (count) => count + 1);
const at = (sequence: number) => ({ state: sequence, version: { sequence, hash: `h${sequence}` } });

describe("the cache of folds", () => {
  it("forgets the session that was used least recently", () => {
    const cache = countMessages(2);
    cache.set("ses_a", at(1));
    cache.set("ses_b", at(2));
    cache.set("ses_a", at(3));
    cache.set("ses_c", at(4));
    expect(cache.get("ses_b")).to.equal(undefined);
    expect([cache.get("ses_a"), cache.get("ses_c")]).to.deep.equal([at(3), at(4)]);
  });

  it("keeps the newer of two folds", () => {
    const cache = countMessages(2);
    cache.set("ses_a", at(5));
    cache.set("ses_a", at(3));
    expect(cache.get("ses_a")).to.deep.equal(at(5));
  });

  it("says when so many messages were folded since the last time", async () => {
    const ledger = memoryLedger().open("gateway");
    const grown: number[] = [];
    const growth = { every: 3, grown: (_session: string, { state }: { state: number }) => grown.push(state) };
    const cache = new FoldCache<number>(2, (count) => count + 1, growth);
    const [first, ...others] = await appendMany(ledger, "ses_a", 6);
    if (first === undefined) throw new Error("Not appended");
    cache.set("ses_a", { state: 1, version: versionOf(first) });
    for (const message of others) cache.observe(message);
    expect(grown).to.deep.equal([3, 6]);
    cache.set("ses_b", at(10), 5);
    expect(grown).to.deep.equal([3, 6, 10]);
  });

  it("follows what others write, and stands still where a message is missing", async () => {
    const ledger = memoryLedger().open("gateway");
    const first = await ledger.append("ses_a", NEW_SESSION, [posted("1")], causeOf("ses_a"));
    const [second, third, fourth] = await appendMany(ledger, "ses_a", 3, versionOf(first));
    if (second === undefined || third === undefined || fourth === undefined) throw new Error("Not appended");
    const cache = countMessages(2);
    cache.set("ses_a", { state: 1, version: versionOf(first) });
    for (const message of [second, second, fourth]) cache.observe(message);
    expect(cache.get("ses_a")).to.deep.equal({ state: 2, version: versionOf(second) });
    for (const message of [third, fourth]) cache.observe(message);
    expect(cache.get("ses_a")?.state).to.equal(4);
  });
});
