import { expect } from "chai";
import { newId, sha256 } from "#shared/ids/ids.ts";
import { appendMany } from "#shared/testing/messages.ts";
import type { LedgerMessage } from "./ledger.ts";
import { memoryLedger } from "./memory.ts";
import { verifyChain } from "./verify.ts";

describe("the hash chain", () => {
  let messages: LedgerMessage[];
  beforeEach(async () => {
    const gateway = memoryLedger().open("gateway");
    const [one, other] = [newId("session"), newId("session")];
    const lists = await Promise.all([appendMany(gateway, one, 5), appendMany(gateway, other, 5)]);
    messages = lists.flat().sort((a, b) => a.sequence - b.sequence);
  });

  it("holds over sessions whose messages are mixed, and over nothing", async () => {
    expect(await verifyChain(messages)).to.equal(undefined);
    expect(await verifyChain([])).to.equal(undefined);
  });

  it("C138: names the message that follows a lost one", async () => {
    const [lost, next] = ofOneSession(1);
    const found = await verifyChain(messages.filter((message) => message !== lost));
    expect(found).to.include({ sequence: next.sequence, id: next.id, session: next.session });
  });

  it("C138: says that the start is missing when it is", async () => {
    const [first, second] = ofOneSession(0);
    const found = await verifyChain(messages.filter((message) => message !== first));
    expect(found).to.include({ sequence: second.sequence });
    expect(found?.reason).to.contain("start is missing");
  });

  it("C138: names a message that was put out of order or comes twice", async () => {
    const [earlier, later] = ofOneSession(2);
    const swapped = messages.map((message) => (message === earlier ? later : message === later ? earlier : message));
    expect(await verifyChain(swapped)).to.include({ sequence: later.sequence });
    const twice = messages.flatMap((message) => (message === later ? [message, message] : [message]));
    expect(await verifyChain(twice)).to.include({ sequence: later.sequence });
  });

  it("names a message whose bytes were changed, and its successor when the hash was changed with it", async () => {
    const [edited, next] = ofOneSession(2);
    const bytes = Uint8Array.from([...edited.bytes, 0x20]);
    const replace = (change: Partial<LedgerMessage>) =>
      messages.map((message) => (message === edited ? { ...message, ...change } : message));
    expect(await verifyChain(replace({ bytes }))).to.include({ sequence: edited.sequence });
    expect(await verifyChain(replace({ bytes, hash: sha256(bytes) }))).to.include({ sequence: next.sequence });
  });

  /** Two neighbours of the first session, from the given place on. */
  function ofOneSession(place: number): [LedgerMessage, LedgerMessage] {
    const [one, two] = messages.filter(({ session }) => session === messages[0]?.session).slice(place, place + 2);
    if (one === undefined || two === undefined) throw new Error("The session is too short");
    return [one, two];
  }
});
