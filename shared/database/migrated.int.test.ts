import { expect } from "chai";
import { failureOf } from "#shared/errors/errors.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { openDatabase } from "./database.ts";
import { migrate } from "./migrate.ts";
import { openMigratedDatabase } from "./migrated.ts";

describe("a database that a service opens", () => {
  const codeOf = (url: string) =>
    openMigratedDatabase(url).then(
      async (database) => database.close(),
      (error: unknown) => failureOf(error).code,
    );

  it("is refused until it is migrated", async () => {
    const { url, close } = await testDatabase();
    try {
      expect(await codeOf(url)).to.equal("database_old");
      const database = await openDatabase(url);
      await migrate(database);
      await database.close();
      expect(await codeOf(url)).to.equal(undefined);
    } finally {
      await close();
    }
  });

  it("is asked for again when it does not answer, and its password is not shown", async () => {
    const failure = await openMigratedDatabase("postgres://pistis:a-secret@127.0.0.1:1/pistis").then(
      () => undefined,
      (error: unknown) => failureOf(error),
    );
    expect(failure?.code).to.equal("database_unreachable");
    expect(failure?.next).to.contain("DATABASE_URL");
    expect(JSON.stringify(failure)).to.not.contain("a-secret");
  });
});
