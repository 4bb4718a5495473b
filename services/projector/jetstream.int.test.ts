import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { lastApplied, SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { findSession } from "#shared/database/sessions.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { appendMany, causeOf, versionOf } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { startProjector } from "./projector.ts";

const SHARDS = 2;
const SESSIONS = ["ses_a", "ses_b", "ses_c"];
const MESSAGES_EACH = 60;

describe("the projector on JetStream", () => {
  const resources = new Resources();
  const blobs = memoryBlobs();
  let nats: TestNats;
  let database: Database;

  before(async () => {
    nats = resources.add("nats", await startTestNats({ shards: SHARDS }), ({ close }) => close());
    const server = resources.add("postgres", await testDatabase(), ({ close }) => close());
    database = resources.add("database", await openDatabase(server.url), ({ close }) => close());
    await migrate(database);
  });

  after(() => resources.close());

  async function startOne() {
    const connection = await nats.connect("projector");
    const feed = openLedgerFeed({ nats: connection, shards: SHARDS, blobs, log: silentLog });
    return startProjector({ feed, database, shards: SHARDS, log: silentLog });
  }

  async function write(session: string): Promise<LedgerMessage[]> {
    const ledger = openLedger({ nats: await nats.connect("gateway"), writer: "gateway", shards: SHARDS, blobs });
    const created: PistisEvent = { type: "SessionCreated", data: { title: session, model: "m", provider: "local" } };
    const first = await ledger.append(session, NEW_SESSION, [created], causeOf(session));
    return [first, ...(await appendMany(ledger, session, MESSAGES_EACH, versionOf(first)))];
  }

  it("has every message once, in order, when projectors stop and start while sessions are written", async () => {
    const writing = Promise.all(SESSIONS.map(write));
    let done = false;
    const finished = writing.finally(() => {
      done = true;
    });
    while (!done) {
      const projector = await startOne();
      await Promise.race([finished, new Promise(setImmediate)]);
      await projector.close();
    }
    const written = await finished;
    const last = Math.max(...written.flat().map(({ sequence }) => sequence));
    const projectors = [await startOne(), await startOne()];
    while ((await lastApplied(database, SESSIONS_PROJECTION)) < last || !(await allMirrored(written))) {
      await new Promise(setImmediate);
    }
    await Promise.all(projectors.map(({ close }) => close()));
    for (const messages of written) await expectMirrored(messages);
  });

  async function allMirrored(written: LedgerMessage[][]): Promise<boolean> {
    const { rows } = await database.pool.query("select 1 from ledger_message");
    return rows.length === written.flat().length;
  }

  async function expectMirrored(messages: LedgerMessage[]): Promise<void> {
    const session = messages[0]?.session ?? "";
    const mirrored = await mirrorReader(database).read(session, 0);
    const texts = (list: readonly { bytes: Uint8Array }[]) => list.map(({ bytes }) => Buffer.from(bytes).toString());
    expect(texts(mirrored)).to.deep.equal(texts(messages));
    const folded = messages.reduce(evolveOverview, undefined);
    expect((await findSession(database, session))?.session).to.deep.equal(folded);
  }
});
