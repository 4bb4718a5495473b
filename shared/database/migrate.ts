import type { Database } from "./database.ts";

/** Any number that nothing else in this database locks. */
const MIGRATION_LOCK = 7_418_294;

/**
 * Brings the tables to the newest form. Several services may call it at once: one migrates, the others wait.
 * The lock is the connection's, so a process that dies in here holds nobody up; each migration is a transaction.
 */
export async function migrate(database: Database): Promise<void> {
  const connection = await database.pool.connect();
  try {
    await connection.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
    await database.orm.migrator.up();
    await connection.query("select pg_advisory_unlock($1)", [MIGRATION_LOCK]);
    connection.release();
  } catch (error) {
    connection.release(true);
    throw error;
  }
}
