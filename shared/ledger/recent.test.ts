import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import { causeOf, posted } from "#shared/testing/messages.ts";
import { decodeMessage, encodeMessage } from "./codec.ts";
import { NEW_SESSION } from "./ledger.ts";
import { RecentMessages } from "./recent.ts";

describe("recent ledger messages", () => {
  const blobs = memoryBlobs();
  let recent: RecentMessages;
  beforeEach(() => {
    recent = new RecentMessages();
  });

  it("are parsed once for all who ask", async () => {
    const stored = await messageAt(7, [posted("a")]);
    const first = await recent.decode(stored, blobs);
    expect(first).to.deep.equal(await decodeMessage(stored, blobs));
    expect(await recent.decode({ ...stored, bytes: stored.bytes.slice() }, blobs)).to.equal(first);
  });

  it("are parsed again when other bytes stand at the same sequence", async () => {
    const [lost, instead] = [await messageAt(7, [posted("lost")]), await messageAt(7, [posted("instead")])];
    await recent.decode(lost, blobs);
    const message = await recent.decode(instead, blobs);
    expect(message).to.deep.equal(await decodeMessage(instead, blobs));
    expect(await recent.decode(instead, blobs)).to.equal(message);
  });

  it("stay when older ones are read", async () => {
    const newer = await messageAt(10_007, [posted("newer")]);
    const kept = await recent.decode(newer, blobs);
    for (let sequence = 9_000; sequence < 10_007; sequence++) {
      await recent.decode({ ...newer, sequence }, blobs);
    }
    expect(await recent.decode(newer, blobs)).to.equal(kept);
  });

  it("make place for newer ones", async () => {
    const older = await messageAt(1, [posted("older")]);
    const first = await recent.decode(older, blobs);
    for (let sequence = 2; sequence < 1_000; sequence++) await recent.decode({ ...older, sequence }, blobs);
    expect(await recent.decode(older, blobs)).not.to.equal(first);
  });

  it("are not kept when they are large, wherever their events are", async () => {
    for (const characters of [20_000, 300_000]) {
      const large = await messageAt(7, [posted("x".repeat(characters))]);
      const first = await recent.decode(large, blobs);
      const second = await recent.decode(large, blobs);
      expect(second).to.deep.equal(first);
      expect(second).not.to.equal(first);
    }
  });

  it("are as they are read when this process appended them", async () => {
    const session = newId("session");
    const events = [posted("a")];
    const encoded = await encodeMessage(
      "gateway",
      { session, expected: NEW_SESSION, events, cause: causeOf(session) },
      blobs,
    );
    recent.keepAppended("ledger.1.ses_1", { ...encoded, sequence: 7 });
    const stored = { sequence: 7, subject: "ledger.1.ses_1", bytes: encoded.bytes.slice() };
    const kept = await recent.decode(stored, blobs);
    expect(kept).to.deep.equal(await decodeMessage(stored, blobs));
    expect(kept.events[0]).not.to.equal(events[0]);
    expect(await recent.decode(stored, blobs)).to.equal(kept);
  });

  it("tell what follows only as far as every sequence is known", async () => {
    const [one, other] = [await messageAt(7, [posted("one")]), await messageAt(8, [posted("other")])];
    const third = { ...(await messageAt(9, [posted("third")])), subject: "ledger.3.ses_1" };
    for (const stored of [one, other, third]) await recent.decode(stored, blobs);
    expect(recent.following(6, "ledger.1.")).to.deep.equal(one);
    expect(recent.following(7, "ledger.3.")).to.deep.equal(third);
    expect(recent.following(8, "ledger.1.")).to.equal(undefined);
    expect(recent.following(4, "ledger.1.")).to.equal(undefined);
    recent.forget();
    expect(recent.following(6, "ledger.1.")).to.equal(undefined);
  });

  async function messageAt(sequence: number, events: readonly PistisEvent[]) {
    const session = newId("session");
    const request = { session, expected: NEW_SESSION, events, cause: causeOf(session) };
    return { sequence, subject: `ledger.1.${session}`, bytes: (await encodeMessage("gateway", request, blobs)).bytes };
  }
});
