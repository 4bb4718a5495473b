// Replays that are counted: the client's own ordered consumer lost messages, so ours has to show that it does not.
import { expect } from "chai";
import { StorageType } from "nats";
import { LEDGER_STREAM, ledgerSubject } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import { encodeMessage } from "#shared/ledger/codec.ts";
import { type LedgerFeed, NEW_SESSION } from "#shared/ledger/ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { causeOf, posted } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";

const MESSAGES = 100_000;
const ROUNDS = 5;
const SESSIONS = 100;
const IN_FLIGHT = 2_000;

describe("replaying the ledger", () => {
  const blobs = memoryBlobs();
  let server: TestNats;
  let feed: LedgerFeed;

  before(async function () {
    this.timeout(300_000);
    server = await startTestNats();
    await keepInMemory(server);
    await fill(server);
    const brain = await server.connect("brain");
    feed = openLedgerFeed({ nats: brain, shards: server.shards, blobs, log: silentLog });
  });
  after(() => server.close());

  it("gives 100,000 messages five times, each once and in order", async function () {
    this.timeout(300_000);
    for (let round = 0; round < ROUNDS; round++) expect(await replay(feed)).to.equal(MESSAGES);
  });

  async function fill({ connect, shards }: TestNats): Promise<void> {
    const gateway = (await connect("gateway")).jetstream();
    const chains = Array.from({ length: SESSIONS }, () => ({ session: newId("session"), hash: "" }));
    for (let sent = 0; sent < MESSAGES; sent += IN_FLIGHT) {
      const acknowledged: Promise<unknown>[] = [];
      for (let index = 0; index < IN_FLIGHT; index++) {
        const chain = chains[index % SESSIONS] ?? { session: newId("session"), hash: "" };
        const expected = { ...NEW_SESSION, hash: chain.hash };
        const request = { session: chain.session, expected, events: [posted("x")], cause: causeOf(chain.session) };
        const { bytes, hash } = await encodeMessage("gateway", request, blobs);
        chain.hash = hash;
        acknowledged.push(gateway.publish(ledgerSubject(chain.session, shards), bytes));
      }
      await Promise.all(acknowledged);
    }
  }
});

/** How many messages came before the last, counting only those that follow directly on the one before. */
async function replay(feed: LedgerFeed): Promise<number> {
  const stop = new AbortController();
  let last = 0;
  for await (const { sequence } of feed.follow({ after: 0, signal: stop.signal })) {
    if (sequence !== last + 1) return last;
    last = sequence;
    if (last === MESSAGES) stop.abort();
  }
  return last;
}

/** The disk is not what is counted here, and waiting for it would take most of the time. */
async function keepInMemory({ connect }: TestNats): Promise<void> {
  const manager = await (await connect("setup")).jetstreamManager();
  const { config } = await manager.streams.info(LEDGER_STREAM);
  await manager.streams.delete(LEDGER_STREAM);
  await manager.streams.add({ ...config, storage: StorageType.Memory });
}
