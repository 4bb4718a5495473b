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
