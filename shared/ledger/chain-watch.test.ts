import { expect } from "chai";
import { newId } from "#shared/ids/ids.ts";
import { appendMany } from "#shared/testing/messages.ts";
import { ChainWatch } from "./chain-watch.ts";
import type { LedgerMessage } from "./ledger.ts";
import { memoryLedger } from "./memory.ts";

describe("the watch over hash chains", () => {
  let watch: ChainWatch;
  let messages: LedgerMessage[];
  beforeEach(async () => {
    watch = new ChainWatch();
    const gateway = memoryLedger().open("gateway");
    messages = await appendMany(gateway, newId("session"), 5);
  });

  function gaps(seen: readonly LedgerMessage[]) {
    return seen.flatMap((message) => {
      const gap = watch.gapBefore(message);
      watch.saw(message);
      return gap === undefined ? [] : [[gap.after, gap.sequence]];
    });
  }

  it("finds nothing in a whole chain, wherever it begins", () => {
    expect(gaps(messages.slice(2))).to.deep.equal([]);
  });

  it("C138: finds the message that was left out", () => {
    expect(gaps(messages.filter((_, index) => index !== 2))).to.deep.equal([[2, 4]]);
  });

  it("raises no alarm when messages come again", () => {
    expect(gaps([...messages, ...messages.slice(1), ...messages])).to.deep.equal([]);
  });

  it("keeps sessions apart and forgets the oldest of very many", () => {
    const [first, , third] = messages;
    if (first === undefined || third === undefined) throw new Error("Too few messages");
    gaps([first]);
    for (let index = 0; index < 5_000; index++) watch.saw({ session: `ses_${index}`, sequence: index, hash: "" });
    expect(gaps([third])).to.deep.equal([]);
  });
});
