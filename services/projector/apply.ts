// One batch becomes rows in one transaction: the mirror, the read models and how far they have come. A batch that
// comes again changes nothing; a process that dies in here leaves nothing behind.
import { z } from "zod";
import { shardOf } from "#schemas/ledger/subjects.ts";
import { SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import { askDatabase } from "#shared/database/ask.ts";
import type { Database } from "#shared/database/database.ts";
import { type Mark, writeBatch } from "#shared/database/write-batch.ts";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { type Gap, project } from "./project.ts";
import { knownSessions, remember, type SessionsCache } from "./sessions-cache.ts";

const RETRY_AFTER_MS = 500;
const WRITE_MS_MAX = 30_000;

/** SQLSTATE classes that say that the rows themselves are bad: another try would fail the same way. */
const BAD_DATA_CLASSES = ["22", "23"];

const withSqlState = z.object({ code: z.string().length(5) });

export type Projection = Readonly<{ database: Database; shards: number; cache: SessionsCache }>;

/** Resolves with the gaps that were seen. Throws a Retryable `database_failed` unless the server refuses the rows. */
export async function applyBatch(
  { database, shards, cache }: Projection,
  messages: readonly LedgerMessage[],
): Promise<readonly Gap[]> {
  try {
    const { overviews, gaps } = project(await askDatabase(() => knownSessions(cache, database, messages)), messages);
    step("projector.batch.writing");
    const batch = { messages, overviews, marks: marksOf(messages, shards) };
    // One that is late and gets through after all changes nothing for the next try.
    await askDatabase(() => writeBatch(database.pool, batch), WRITE_MS_MAX);
    step("projector.batch.written");
    remember(cache, overviews);
    return gaps;
  } catch (cause) {
    throw refusedRows(cause) ? cause : retryable(cause);
  }
}

/** Where each shard is after these messages, which are in order. */
export function marksOf(messages: readonly Pick<LedgerMessage, "session" | "sequence">[], shards: number): Mark[] {
  const last = new Map<number, number>();
  for (const { session, sequence } of messages) last.set(shardOf(session, shards), sequence);
  return [...last].map(([shard, sequence]) => ({ projection: SESSIONS_PROJECTION, shard, sequence }));
}

function refusedRows(error: unknown): boolean {
  const state = withSqlState.safeParse(error);
  return state.success && BAD_DATA_CLASSES.some((badClass) => state.data.code.startsWith(badClass));
}

function retryable(cause: unknown): Retryable {
  return new Retryable("database_failed", `The batch could not be written: ${failureOf(cause).message}`, {
    cause,
    retryAfterMs: RETRY_AFTER_MS,
    next: "Look at PostgreSQL; the batch is tried again.",
  });
}
