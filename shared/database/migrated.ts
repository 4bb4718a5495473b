import { Refusal } from "#shared/errors/errors.ts";
import { type Database, openDatabase } from "./database.ts";

/** Opens a database that set-up has migrated. Throws a Refusal `database_old` when it has not, or not lately. */
export async function openMigratedDatabase(url: string): Promise<Database> {
  const database = await openDatabase(url);
  try {
    const pending = await database.orm.migrator.getPending();
    if (pending.length === 0) return database;
    throw new Refusal("database_old", `The database lacks ${pending.length} migrations of this version`, {
      next: "Run `pistis setup` with its DATABASE_URL, then start this again",
    });
  } catch (error) {
    await database.close();
    throw error;
  }
}
