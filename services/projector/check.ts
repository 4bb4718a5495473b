// Replays the mirror into tables aside and compares them with the read models, row by row. One transaction over one
// snapshot, which is thrown away: nothing waits for it and nothing is changed.
import type { PoolClient } from "pg";
import { z } from "zod";
import { type Rebuild, replayAll } from "./rebuild.ts";

/** The first row that differs: as it is, and as a rebuild makes it. `null`: there is none. */
export type Difference = Readonly<{ table: string; key: string; stored: unknown; rebuilt: unknown }>;

export type ProjectionCheck = Readonly<{ messages: number; rows: number; difference: Difference | undefined }>;

const TABLES = { session_overview: ["id"], applied_sequence: ["projection", "shard"] } as const;

const differences = z.array(z.object({ key: z.string(), stored: z.unknown(), rebuilt: z.unknown() }));
const counts = z.tuple([z.object({ count: z.coerce.number().int() })]);

/** Throws what decodeMessage throws for a message that cannot be read. */
export async function checkReadModels(rebuild: Rebuild): Promise<ProjectionCheck> {
  const connection = await rebuild.database.pool.connect();
  try {
    await connection.query("begin isolation level repeatable read");
    for (const table of Object.keys(TABLES)) {
      // A temporary table is found before the one of the same name.
      await connection.query(`create temporary table ${table} (like public.${table} including all) on commit drop`);
    }
    const messages = await replayAll(rebuild, connection);
    return { messages, ...(await compare(connection)) };
  } finally {
    // A connection that is thrown away takes its transaction and its temporary tables along.
    connection.release(true);
  }
}

async function compare(connection: PoolClient): Promise<Omit<ProjectionCheck, "messages">> {
  const [{ count }] = counts.parse((await connection.query("select count(*) from public.session_overview")).rows);
  for (const [table, keys] of Object.entries(TABLES)) {
    const key = keys.map((name) => `coalesce(stored.${name}, rebuilt.${name})::text`).join(" || ' ' || ");
    const same = keys.map((name) => `stored.${name} = rebuilt.${name}`).join(" and ");
    const { rows } = await connection.query(`
      select ${key} as key, to_jsonb(stored) as stored, to_jsonb(rebuilt) as rebuilt
      from public.${table} stored full join pg_temp.${table} rebuilt on ${same}
      where stored is distinct from rebuilt order by 1 limit 1`);
    const [found] = differences.parse(rows);
    if (found !== undefined) return { rows: count, difference: { table, ...found } };
  }
  return { rows: count, difference: undefined };
}
