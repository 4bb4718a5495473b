import { Client } from "pg";
import { z } from "zod";

const CONNECT_MS_MAX = 5_000;

/** SQLSTATE codes and system errors on which callers branch. */
export const PostgresCode = { wrongPassword: "28P01", databaseExists: "42P04" } as const;

const coded = z.object({ code: z.string() });

/** `undefined` when a query is answered, else why not: the server may be starting, stopping, or not there. */
export async function connectionProblem(url: string): Promise<{ code: string; message: string } | undefined> {
  try {
    await query(url, "SELECT 1");
    return undefined;
  } catch (error) {
    return { code: codeOf(error), message: error instanceof Error ? error.message : String(error) };
  }
}

/** Does nothing when it exists. `name` is one of our own, never a person's input. */
export async function createDatabase(url: string, name: string): Promise<void> {
  try {
    await query(url, `CREATE DATABASE ${name}`);
  } catch (error) {
    if (codeOf(error) !== PostgresCode.databaseExists) throw error;
  }
}

export async function dropDatabase(url: string, name: string): Promise<void> {
  await query(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

async function query(url: string, text: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS_MAX });
  // The connection breaks at its own time when a server stops; the query's own rejection is what counts.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query(text);
  } finally {
    await client.end();
  }
}

function codeOf(error: unknown): string {
  const parsed = coded.safeParse(error);
  return parsed.success ? parsed.data.code : "unknown";
}
