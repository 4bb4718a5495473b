import { type Database, openDatabase } from "./database.ts";
import { databaseUnreachable, requireMigrated } from "./pool.ts";

/** Throws a Retryable `database_unreachable` with what to look at. */
export async function openReachableDatabase(url: string): Promise<Database> {
  let database: Database | undefined;
  try {
    database = await openDatabase(url);
    await database.ping();
    return database;
  } catch (cause) {
    await database?.close();
    throw databaseUnreachable(cause);
  }
}

/** Opens a database that set-up has migrated. Throws as `requireMigrated` does. */
export async function openMigratedDatabase(url: string): Promise<Database> {
  const database = await openReachableDatabase(url);
  try {
    await requireMigrated(database.pool);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}
