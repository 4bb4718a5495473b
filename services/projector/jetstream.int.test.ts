import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { lastApplied, SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { findSession } from "#shared/database/sessions.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { encodeMessage } from "#shared/ledger/codec.ts";
import type { LedgerMessage, Version } from "#shared/ledger/ledger.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { scanLedger, WHOLE_LEDGER } from "#shared/nats/ledger/scan.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { appendMany, causeOf, lastOf, posted, versionOf } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { startProjector } from "./projector.ts";
import { rebuildReadModels } from "./rebuild.ts";
import { refillMirror } from "./refill.ts";

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

  it("C138: a mirror that lacks messages is filled from the ledger, with what can be read, and then rebuilt from", async () => {
    const written = await write("ses_d");
    const unreadable = await writeUnreadable("ses_d", lastOf(written));
    const projector = await startOne();
    const later = await write("ses_e");
    const after = await writeAfter("ses_d", unreadable);
    while (!(await mirrored()).has(after.sequence) || !(await mirrored()).has(lastOf(later).sequence))
      await new Promise(setImmediate);
    await projector.close();
    const whole = await mirrored();
    const [first, second, refused] = [written[0], written[30], written[31]].map((message) => message?.sequence ?? 0);
    await database.pool.query("delete from ledger_message where sequence = any($1)", [[first, second, refused]]);
    const stream = scanLedger(await nats.connect("setup"), { after: 0, subject: WHOLE_LEDGER });
    const parts = { stream, database, blobs, shards: SHARDS };
    expect(await refillMirror({ ...parts, refused: new Set([refused ?? 0]) })).to.equal(2);
    expect(await mirrored()).to.deep.equal(new Set([...whole].filter((sequence) => sequence !== refused)));
    const again = scanLedger(await nats.connect("setup"), { after: 0, subject: WHOLE_LEDGER });
    expect(await refillMirror({ ...parts, stream: again, refused: new Set() })).to.equal(1);
    await rebuildReadModels(parts);
    await expectMirrored([...written, after]);
  });

  it("leaves to the projector what it has not come to", async () => {
    await write("ses_f");
    const before = await mirrored();
    const stream = scanLedger(await nats.connect("setup"), { after: 0, subject: WHOLE_LEDGER });
    expect(await refillMirror({ stream, database, blobs, shards: SHARDS, refused: new Set() })).to.equal(0);
    expect(await mirrored()).to.deep.equal(before);
  });

  async function mirrored(): Promise<Set<number>> {
    const rows = await mirrorReader(database).page(0, 10_000);
    return new Set(rows.map(({ sequence }) => sequence));
  }

  /** One that only a later version can read. */
  async function writeUnreadable(session: string, before: LedgerMessage): Promise<Version> {
    const append = { session, expected: versionOf(before), events: [posted("newer")], cause: causeOf(session) };
    const { bytes } = await encodeMessage("gateway", append, blobs);
    const newer = new TextEncoder().encode(new TextDecoder().decode(bytes).replace('"version":1', '"version":2'));
    const gateway = await nats.connect("gateway");
    const { seq } = await gateway.jetstream().publish(ledgerSubject(session, SHARDS), newer);
    return { sequence: seq, hash: sha256(newer) };
  }

  async function writeAfter(session: string, version: Version): Promise<LedgerMessage> {
    const ledger = openLedger({ nats: await nats.connect("gateway"), writer: "gateway", shards: SHARDS, blobs });
    return ledger.append(session, version, [posted("after")], causeOf(session));
  }

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
