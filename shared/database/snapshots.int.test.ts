import { expect } from "chai";
import { type LedgerMessage, NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import type { Snapshots } from "#shared/ledger/snapshots.ts";
import { appendMany, failureFrom, lastOf, versionOf } from "#shared/testing/messages.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { type Database, openDatabase } from "./database.ts";
import { migrate } from "./migrate.ts";
import { openSnapshots } from "./snapshots.ts";
import { writeBatch } from "./write-batch.ts";

const key = { session: "ses_1", fold: "brain", foldVersion: 2 };

describe("snapshots in the database", () => {
  let server: Awaited<ReturnType<typeof testDatabase>>;
  let database: Database;
  let snapshots: Snapshots;
  let messages: LedgerMessage[];

  before(async () => {
    server = await testDatabase();
    database = await openDatabase(server.url);
    await migrate(database);
    snapshots = openSnapshots(database);
    messages = await appendMany(memoryLedger().open("gateway"), key.session, 3, NEW_SESSION);
    await writeBatch(database.pool, { messages, overviews: [], marks: [] });
  });
  beforeEach(() => database.pool.query("delete from session_snapshot"));
  after(async () => {
    await database.close();
    await server.close();
  });

  const at = (index: number, state: unknown = { count: index }) => {
    return { version: versionOf(lastOf([messages[index]])), state };
  };

  it("come back as they were saved", async () => {
    const state = { text: "ä\0ö \u2028", list: [1, null, { deep: true }] };
    await snapshots.save(key, at(2, state));
    expect(await snapshots.load(key)).to.deep.equal(at(2, state));
    expect(await snapshots.load({ ...key, fold: "gateway" })).to.equal(undefined);
    expect(await snapshots.load({ ...key, session: "ses_2" })).to.equal(undefined);
  });

  it("are replaced by newer ones and by those of newer code, and not by older ones", async () => {
    await snapshots.save(key, at(1));
    await snapshots.save(key, at(0));
    expect(await snapshots.load(key)).to.deep.equal(at(1));
    await snapshots.save(key, at(2));
    expect(await snapshots.load(key)).to.deep.equal(at(2));
    await snapshots.save({ ...key, foldVersion: 1 }, at(2));
    expect(await snapshots.load({ ...key, foldVersion: 1 })).to.equal(undefined);
    await snapshots.save({ ...key, foldVersion: 3 }, at(0));
    expect(await snapshots.load(key)).to.equal(undefined);
    expect(await snapshots.load({ ...key, foldVersion: 3 })).to.deep.equal(at(0));
  });

  it("are given up when the server does not answer", async () => {
    const connection = await database.pool.connect();
    try {
      await connection.query("begin");
      await connection.query("lock table session_snapshot");
      // It may still be saved when the lock is gone, so it is of a session that no other test asks for.
      const other = { ...key, session: "ses_3" };
      expect(await failureFrom(() => snapshots.save(other, at(1)))).to.include({ code: "database_unavailable" });
    } finally {
      await connection.query("rollback");
      connection.release();
    }
  });

  it("do not count when the mirror has another message at their place, or none", async () => {
    const { version } = at(1);
    await snapshots.save(key, { version: { ...version, hash: "0".repeat(64) }, state: {} });
    expect(await snapshots.load(key)).to.equal(undefined);
    await snapshots.save(key, { version: { ...version, sequence: 99 }, state: {} });
    expect(await snapshots.load(key)).to.equal(undefined);
  });
});
