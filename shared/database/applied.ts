// How far each projection has come, per shard. Written together with what it made (write-batch.ts).
import { z } from "zod";
import type { Database } from "./database.ts";

/** The projection that keeps the list of sessions. */
export const SESSIONS_PROJECTION = "sessions";

const sequences = z.tuple([z.object({ sequence: z.coerce.number().int() })]);

/** The highest sequence that any shard of the projection has applied; 0 when there is none. */
export async function lastApplied(database: Database, projection: string): Promise<number> {
  const text = "select coalesce(max(sequence), 0) as sequence from applied_sequence where projection = $1";
  const [{ sequence }] = sequences.parse((await database.pool.query({ text, values: [projection] })).rows);
  return sequence;
}
