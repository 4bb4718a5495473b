// PostgreSQL for services that only ask it: a pool of connections, without the ORM, which takes a third of a second to
// load and is needed by those who write read models.
import { setTimeout as delay } from "node:timers/promises";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { MIGRATION_TABLE, migrationNames } from "./migrations/names.ts";

export const CONNECTIONS_MAX = 10;
export const CONNECT_MS = 10_000;

/** The pool, or the one connection of a transaction. */
export type Connection = Pool | PoolClient;

export type DatabasePool = Readonly<{
  pool: Pool;
  /** Throws when the server does not answer. */
  ping: () => Promise<void>;
  close: () => Promise<void>;
}>;

const END_MS = 2_000;
const UNDEFINED_TABLE = "42P01";
const migrationRows = z.array(z.object({ name: z.string() }));

/** Opens a database that set-up has migrated. Throws as `requireMigrated` does. */
export async function openMigratedPool(url: string): Promise<DatabasePool> {
  const pool = new Pool({
    connectionString: url,
    max: CONNECTIONS_MAX,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
  });
  // Without a listener the end of an idle connection would end the process. Whoever asks next is told.
  pool.on("connect", (client) => client.on("error", forgotten)).on("error", forgotten);
  const database = { pool, ping: () => pingPool(pool), close: () => ended(pool.end()) };
  try {
    await requireMigrated(pool);
    return database;
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/** The end of a pool waits for the queries on their way; a server that hangs would never answer them. */
export async function ended(end: Promise<void>): Promise<void> {
  await Promise.race([end, delay(END_MS, undefined, { ref: false })]);
}

export async function pingPool(pool: Pool): Promise<void> {
  await pool.query("select 1");
}

/** A Retryable that says what to look at; the address, with its password, is not in it. */
export function databaseUnreachable(cause: unknown): Retryable {
  return new Retryable("database_unreachable", `PostgreSQL cannot be used: ${failureOf(cause).message}`, {
    cause,
    retryAfterMs: 1_000,
    next: "See that PostgreSQL runs and that DATABASE_URL has its address, user, password and database",
  });
}

/** Throws a Retryable `database_unreachable`, or a Refusal `database_old` when set-up has not migrated it, or not lately. */
export async function requireMigrated(pool: Pool): Promise<void> {
  const done = new Set(await migrationsOf(pool));
  const pending = migrationNames.filter((name) => !done.has(name)).length;
  if (pending === 0) return;
  throw new Refusal("database_old", `The database lacks ${pending} migrations of this version`, {
    next: "Run `pistis setup` with its DATABASE_URL, then start this again",
  });
}

async function migrationsOf(pool: Pool): Promise<string[]> {
  try {
    const { rows } = await pool.query(`select name from ${MIGRATION_TABLE}`);
    return migrationRows.parse(rows).map(({ name }) => name);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === UNDEFINED_TABLE) return [];
    throw databaseUnreachable(error);
  }
}

function forgotten(): void {
  // The pool has dropped the connection by now.
}
