import { expect } from "chai";
import { failureOf } from "#shared/errors/errors.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { openDatabase } from "./database.ts";
import { migrate } from "./migrate.ts";
import { openMigratedDatabase } from "./migrated.ts";
import { migrationNames } from "./migrations/names.ts";
import { openMigratedPool } from "./pool.ts";

const openers = { "with the ORM": openMigratedDatabase, "as a pool alone": openMigratedPool };

for (const [how, open] of Object.entries(openers)) {
  describe(`a database that a service opens ${how}`, () => {
    const failureFor = (url: string) =>
      open(url).then(
        async (database) => {
          await database.ping();
          await database.close();
          return undefined;
        },
        (error: unknown) => failureOf(error),
      );

    it("is refused until it is migrated, and when a migration is missing", async () => {
      const { url, close } = await testDatabase();
      try {
        expect(await failureFor(url)).to.include({
          code: "database_old",
          message: `The database lacks ${migrationNames.length} migrations of this version`,
        });
        const database = await openDatabase(url);
        await migrate(database);
        expect(await failureFor(url)).to.equal(undefined);
        await database.pool.query("delete from migration where name = $1", [migrationNames.at(-1)]);
        await database.close();
        expect((await failureFor(url))?.message).to.contain("lacks 1 migration");
      } finally {
        await close();
      }
    });

    it("is asked for again when it does not answer, and its password is not shown", async () => {
      const failure = await failureFor("postgres://pistis:a-secret@127.0.0.1:1/pistis");
      expect(failure?.code).to.equal("database_unreachable");
      expect(failure?.next).to.contain("DATABASE_URL");
      expect(JSON.stringify(failure)).to.not.contain("a-secret");
    });
  });
}

describe("the pool of a service", () => {
  it("outlives connections that the server ends", async () => {
    const { url, close } = await testDatabase();
    const database = await openDatabase(url);
    await migrate(database);
    const { pool, ping, ...opened } = await openMigratedPool(url);
    try {
      await ping();
      const removed = new Promise((resolve) => pool.once("remove", resolve));
      await database.pool.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
      );
      await removed;
      await ping();
    } finally {
      await opened.close();
      await database.close();
      await close();
    }
  });
});
