// How far each projection has come, per shard. Written in the transaction that also writes what it made.
import type { EntityManager } from "@mikro-orm/postgresql";
import { z } from "zod";
import type { Database } from "./database.ts";

const sequences = z.tuple([z.object({ sequence: z.coerce.number().int() })]);

/** Moves the mark of a shard forward, never back, inside the caller's transaction. */
export async function markApplied(
  em: EntityManager,
  mark: { projection: string; shard: number; sequence: number },
): Promise<void> {
  await em.execute(
    `insert into applied_sequence (projection, shard, sequence) values (?, ?, ?)
     on conflict (projection, shard) do update set sequence = greatest(applied_sequence.sequence, excluded.sequence)`,
    [mark.projection, mark.shard, mark.sequence],
  );
}

/** The highest sequence that any shard of the projection has applied; 0 when there is none. */
export async function lastApplied(database: Database, projection: string): Promise<number> {
  const text = "select coalesce(max(sequence), 0) as sequence from applied_sequence where projection = $1";
  const [{ sequence }] = sequences.parse((await database.pool.query({ text, values: [projection] })).rows);
  return sequence;
}
