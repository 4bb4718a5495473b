import { expect } from "chai";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import { encodeMessage } from "#shared/ledger/codec.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { RecentMessages, type SubjectMessage } from "#shared/ledger/recent.ts";
import { causeOf, failureFrom, posted } from "#shared/testing/messages.ts";
import { HELD_MAX, type Holding, hold, noteNewBatch, type Progress, wasHandled, workOffKnown } from "./hold.ts";

const ONE_SHARD = 1;
const TWO_SHARDS = 2;

describe("a reader that holds its message", () => {
  let recent: RecentMessages;
  let progress: Progress;
  let handled: number[];
  let stop: AbortController;

  beforeEach(() => {
    recent = new RecentMessages({ hearsAll: true });
    progress = { done: 0, acknowledged: 0, delivery: 1, scanned: 0, gatherUntil: 0, ahead: new Map() };
    handled = [];
    stop = new AbortController();
  });

  it("goes on with what follows, in order, until the shard is quiet", async () => {
    noteNewBatch(progress, [await append(1)]);
    const held = hold(holding(), progress);
    for (const sequence of [2, 3, 4]) await append(sequence);
    await held;
    expect(handled).to.deep.equal([2, 3, 4]);
    expect([...progress.ahead.keys()]).to.deep.equal([2, 3, 4]);
  });

  it("leaves other shards' messages out", async () => {
    const [mine, others] = [sessionOf(0), sessionOf(1)];
    noteNewBatch(progress, [await append(1, mine)]);
    await append(2, others);
    await append(3, mine);
    await append(4, others);
    await workOffKnown(holding(), progress);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([3]);
    await append(5, mine);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([3, 5]);
  });

  it("waits before a message that it does not know", async () => {
    noteNewBatch(progress, [await append(1)]);
    await append(3);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([]);
    await append(2);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([2, 3]);
  });

  it("takes a message that failed for not handled", async () => {
    noteNewBatch(progress, [await append(1)]);
    const second = await append(2);
    const failing = { ...holding(), deliver: () => Promise.reject(new Error("broken")) };
    expect(await failureFrom(() => workOffKnown(failing, progress))).to.be.instanceOf(Error);
    expect(wasHandled(progress, second)).to.equal(false);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([2]);
    expect(wasHandled(progress, second)).to.equal(true);
  });

  it("knows a message that took the place of one that the server has lost", async () => {
    noteNewBatch(progress, [await append(1)]);
    await append(2);
    await workOffKnown(holding(), progress);
    expect(wasHandled(progress, await messageAt(2))).to.equal(false);
  });

  it("gives up when too much is unacknowledged", async () => {
    noteNewBatch(progress, [await append(1)]);
    for (let count = 0; count < HELD_MAX; count++) progress.ahead.set(-count, new Uint8Array());
    await append(2);
    await hold(holding(), progress);
    expect(handled).to.deep.equal([]);
  });

  it("gives up when the service stops", async () => {
    noteNewBatch(progress, [await append(1)]);
    const held = hold(holding(), progress);
    stop.abort();
    await held;
    await append(2);
    await workOffKnown(holding(), progress);
    expect(handled).to.deep.equal([]);
  });

  function holding(): Holding {
    const deliver = async (batch: readonly SubjectMessage[]) => {
      handled.push(...batch.map(({ sequence }) => sequence));
      return true;
    };
    return { recent, shard: 0, gatherMs: 0, stopping: stop.signal, deliver };
  }

  async function append(sequence: number, session?: string): Promise<SubjectMessage> {
    const message = await messageAt(sequence, session);
    recent.keepAppended(message.subject, message);
    return message;
  }
});

async function messageAt(sequence: number, session?: string) {
  const of = session ?? newId("session");
  const append = { session: of, expected: NEW_SESSION, events: [posted("a")], cause: causeOf(of) };
  const message = await encodeMessage("gateway", append, memoryBlobs());
  return { ...message, sequence, subject: ledgerSubject(of, session === undefined ? ONE_SHARD : TWO_SHARDS) };
}

function sessionOf(shard: number): string {
  for (;;) {
    const session = newId("session");
    if (ledgerSubject(session, TWO_SHARDS).startsWith(`ledger.${shard}.`)) return session;
  }
}
