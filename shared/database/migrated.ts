import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { type Database, openDatabase } from "./database.ts";

/** Throws a Retryable `database_unreachable` with what to look at. */
export async function openReachableDatabase(url: string): Promise<Database> {
  let database: Database | undefined;
  try {
    database = await openDatabase(url);
    await database.ping();
    return database;
  } catch (cause) {
    await database?.close();
    throw new Retryable("database_unreachable", `PostgreSQL cannot be used: ${failureOf(cause).message}`, {
      cause,
      retryAfterMs: 1_000,
      next: "See that PostgreSQL runs and that DATABASE_URL has its address, user, password and database",
    });
  }
}

/** Opens a database that set-up has migrated. Throws a Refusal `database_old` when it has not, or not lately. */
export async function openMigratedDatabase(url: string): Promise<Database> {
  const database = await openReachableDatabase(url);
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
