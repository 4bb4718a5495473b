import { expect } from "chai";
import { testDatabase } from "#shared/testing/postgres.ts";
import { type Database, openDatabase } from "./database.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations/migrations.ts";

describe("the database", () => {
  let server: Awaited<ReturnType<typeof testDatabase>>;
  let databases: Database[] = [];

  beforeEach(async () => {
    server = await testDatabase();
    databases = await Promise.all([openDatabase(server.url), openDatabase(server.url), openDatabase(server.url)]);
  });

  afterEach(async () => {
    await Promise.all(databases.map((database) => database.close()));
    await server.close();
  });

  it("is migrated once when several services start at the same time", async () => {
    await Promise.all(databases.map(migrate));
    for (const { orm } of databases) expect(await orm.migrator.getPending()).to.deep.equal([]);
    const [database] = databases;
    const applied = await database?.pool.query("select name from migration");
    expect(applied?.rows).to.have.length(migrations.length);
  });

  it("is closed also while a query is on its way that nobody answers", async () => {
    const [waiting, other] = databases;
    if (waiting === undefined || other === undefined) throw new Error("No database");
    const lock = await other.pool.connect();
    await lock.query("select pg_advisory_lock(1)");
    const query = waiting.pool.query("select pg_advisory_lock(1)");
    const isWaiting = async () => (await lock.query("select 1 from pg_locks where not granted")).rows.length > 0;
    while (!(await isWaiting())) await new Promise(setImmediate);
    await waiting.close();
    await lock.query("select pg_advisory_unlock(1)");
    await query;
    lock.release();
  });

  it("has in its tables exactly the columns of the entities", async () => {
    const [database] = databases;
    if (database === undefined) throw new Error("No database");
    await migrate(database);
    const update = await database.orm.schema.getUpdateSchemaSQL({ wrap: false, safe: true });
    // Indexes and checks are in the migrations alone.
    const differences = update.split(";\n").filter((line) => !/^$|drop index|drop constraint/.test(line.trim()));
    expect(differences).to.deep.equal([]);
  });
});
