import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { lastApplied, SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { findSession, listSessions } from "#shared/database/sessions.ts";
import { unsettledSessions } from "#shared/database/unsettled.ts";
import type { LedgerMessage, Version } from "#shared/ledger/ledger.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { silentLog } from "#shared/service/log.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { applyBatch } from "./apply.ts";
import { checkReadModels } from "./check.ts";
import { startProjector } from "./projector.ts";
import { rebuildReadModels } from "./rebuild.ts";

const SHARDS = 4;
const created = (title: string): PistisEvent => ({
  type: "SessionCreated",
  data: { title, model: "script", provider: "local", repository: { url: "https://example.org/a.git" } },
});
const posted = (messageId: string): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text: "hi", delivery: "queue" },
});
const turn = (turnId: string, messageId: string): PistisEvent => ({
  type: "TurnStarted",
  data: { turnId, epoch: 1, brain: "b", messageIds: [messageId] },
});

describe("the projector", () => {
  let server: Awaited<ReturnType<typeof testDatabase>>;
  let database: Database;
  let ledger: ReturnType<typeof memoryLedger>;

  beforeEach(async () => {
    server = await testDatabase();
    database = await openDatabase(server.url);
    await migrate(database);
    ledger = memoryLedger();
  });

  afterEach(async () => {
    await database.close();
    await server.close();
  });

  const fresh = () => ({ database, shards: SHARDS, cache: new Map() });

  async function append(session: string, events: PistisEvent[], expected: Version = NEW_SESSION) {
    const writer = events[0]?.type === "TurnStarted" ? "brain" : "gateway";
    return ledger.open(writer).append(session, expected, events, { correlationId: session, causationId: null });
  }

  async function someSessions(): Promise<LedgerMessage[]> {
    const messages: LedgerMessage[] = [];
    for (const name of ["a", "b", "c"]) {
      const session = `ses_${name}`;
      const first = await append(session, [created(`session ${name}`), posted(`msg_${name}`)]);
      const second = await append(session, [turn(`trn_${name}`, `msg_${name}`)], first);
      messages.push(first, second, await append(session, [posted(`msg_${name}2`)], second));
    }
    return messages;
  }

  async function tables() {
    const all = (table: string) => database.pool.query(`select * from ${table} order by 1, 2`);
    const [mirror, sessions, applied] = await Promise.all([
      all("ledger_message"),
      all("session_overview"),
      all("applied_sequence"),
    ]);
    return { mirror: mirror.rows, sessions: sessions.rows, applied: applied.rows };
  }

  it("copies what the feed brings into the mirror, byte for byte, and into the read models", async () => {
    const messages = await someSessions();
    const projector = await startProjector({ feed: ledger.feed, database, shards: SHARDS, log: silentLog });
    await projectedUpTo(messages.at(-1)?.sequence ?? 0);
    await projector.close();
    for (const session of ["ses_a", "ses_b", "ses_c"]) {
      const mirrored = await mirrorReader(database).read(session, 0);
      const expected = messages.filter((message) => message.session === session);
      expect(mirrored.map(({ sequence }) => sequence)).to.deep.equal(expected.map(({ sequence }) => sequence));
      expect(mirrored.map(({ bytes }) => Buffer.from(bytes).toString())).to.deep.equal(
        expected.map(({ bytes }) => Buffer.from(bytes).toString()),
      );
    }
    expect((await findSession(database, "ses_b"))?.session).to.include({ title: "session b", queuedMessages: 1 });
    expect((await unsettledSessions(database)).sort()).to.deep.equal(["ses_a", "ses_b", "ses_c"]);
  });

  it("changes nothing when a batch comes again, whole or in part", async () => {
    const messages = await someSessions();
    await applyBatch(fresh(), messages);
    const before = await tables();
    await applyBatch(fresh(), messages);
    await applyBatch(fresh(), messages.slice(2, 5));
    expect(await tables()).to.deep.equal(before);
  });

  it("goes on from the rows that it wrote last, and reads them again when another replica went on", async () => {
    const messages = await someSessions();
    const [one, other] = [fresh(), fresh()];
    await applyBatch(one, messages.slice(0, 4));
    await applyBatch(one, messages.slice(4, 5));
    await applyBatch(other, messages.slice(5, 8));
    await applyBatch(one, messages.slice(8));
    const shared = await tables();
    await database.pool.query("truncate ledger_message, session_overview, applied_sequence");
    await applyBatch(fresh(), messages);
    expect(shared).to.deep.equal(await tables());
  });

  it("writes mirror, read models and applied sequence together or not at all", async () => {
    const messages = await someSessions();
    await database.pool.query("alter table applied_sequence add constraint refuse check (sequence < 0)");
    const outcome = await applyBatch(fresh(), messages).then(
      () => "written",
      () => "refused",
    );
    expect(outcome).to.equal("refused");
    expect(await tables()).to.deep.equal({ mirror: [], sessions: [], applied: [] });
  });

  it("asks for the batch again when the database does not answer", async () => {
    const messages = await someSessions();
    await server.close();
    const failure = await applyBatch(fresh(), messages).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).to.have.property("code", "database_failed");
  });

  it("comes to the same rows when two replicas get the same batches at the same time", async () => {
    const messages = await someSessions();
    const halves = [messages.slice(0, 5), messages.slice(0, 9)];
    await Promise.all(halves.map((half) => applyBatch(fresh(), half)));
    const raced = await tables();
    await database.pool.query("truncate ledger_message, session_overview, applied_sequence");
    await applyBatch(fresh(), messages);
    expect(raced).to.deep.equal(await tables());
  });

  it("rebuilds the read models from the mirror to the same rows", async () => {
    const messages = await someSessions();
    for (const message of messages) await applyBatch(fresh(), [message]);
    const before = await tables();
    await database.pool.query("update session_overview set title = 'wrong', turns = 99");
    expect(await rebuildReadModels({ database, blobs: memoryBlobs(), shards: SHARDS })).to.deep.equal({ messages: 9 });
    expect(await tables()).to.deep.equal(before);
  });

  it("loses nothing when the read models are rebuilt while a projector goes on", async () => {
    const messages = await someSessions();
    await applyBatch(fresh(), messages.slice(0, 3));
    const projector = fresh();
    await Promise.all([
      rebuildReadModels({ database, blobs: memoryBlobs(), shards: SHARDS }),
      applyBatch(projector, messages.slice(3, 6)),
      rebuildReadModels({ database, blobs: memoryBlobs(), shards: SHARDS }),
    ]);
    await applyBatch(projector, messages.slice(6));
    const raced = await tables();
    await database.pool.query("truncate ledger_message, session_overview, applied_sequence");
    await applyBatch(fresh(), messages);
    expect(raced).to.deep.equal(await tables());
  });

  it("changes nothing when a rebuild fails", async () => {
    await applyBatch(fresh(), await someSessions());
    await database.pool.query("update ledger_message set message = 'no json' where sequence = 9");
    const before = await tables();
    const outcome = await rebuildReadModels({ database, blobs: memoryBlobs(), shards: SHARDS }).then(
      () => "rebuilt",
      () => "refused",
    );
    expect(outcome).to.equal("refused");
    expect(await tables()).to.deep.equal(before);
  });

  it("checks the read models without changing them, and names the first row that differs", async () => {
    await applyBatch(fresh(), await someSessions());
    const check = () => checkReadModels({ database, blobs: memoryBlobs(), shards: SHARDS });
    expect(await check()).to.deep.equal({ messages: 9, rows: 3, difference: undefined });
    await database.pool.query("update session_overview set title = 'wrong' where id in ('ses_b', 'ses_c')");
    const before = await tables();
    const { difference } = await check();
    expect(difference).to.deep.include({ table: "session_overview", key: "ses_b" });
    expect(difference?.stored).to.include({ title: "wrong" });
    expect(difference?.rebuilt).to.include({ title: "session b" });
    await database.pool.query("delete from session_overview where id = 'ses_a'");
    expect((await check()).difference).to.deep.include({ key: "ses_a", stored: null });
    await database.pool.query("update applied_sequence set sequence = sequence + 1");
    await rebuildReadModels({ database, blobs: memoryBlobs(), shards: SHARDS });
    expect((await check()).difference).to.equal(undefined);
    expect((await tables()).mirror).to.deep.equal(before.mirror);
  });

  it("C136: pages through the sessions, the one written to last first, each once", async () => {
    await applyBatch(fresh(), await someSessions());
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listSessions(database, { limit: 2, cursor });
      seen.push(...page.sessions.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    expect(seen).to.deep.equal(["ses_c", "ses_b", "ses_a"]);
  });

  async function projectedUpTo(sequence: number): Promise<void> {
    while ((await lastApplied(database, SESSIONS_PROJECTION)) < sequence) await new Promise(setImmediate);
  }
});
