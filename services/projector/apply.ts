// One batch becomes rows in one transaction: the mirror, the read models and how far they have come. A batch that
// comes again changes nothing; a process that dies in here leaves nothing behind.
import type { EntityManager } from "@mikro-orm/postgresql";
import { z } from "zod";
import { shardOf } from "#schemas/ledger/subjects.ts";
import { markApplied } from "#shared/database/applied.ts";
import type { Database } from "#shared/database/database.ts";
import { writeMirror } from "#shared/database/mirror.ts";
import { findSessions, writeSessions } from "#shared/database/sessions.ts";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { type Gap, project } from "./project.ts";

export const SESSIONS_PROJECTION = "sessions";

const RETRY_AFTER_MS = 500;
const SHARD_LOCK_CLASS = 7_418_295;

/** SQLSTATE classes that say that the rows themselves are bad: another try would fail the same way. */
const BAD_DATA_CLASSES = ["22", "23"];

const withSqlState = z.object({ code: z.string().length(5) });

/** Resolves with the gaps that were seen. Throws a Retryable `database_failed` unless the server refuses the rows. */
export async function applyBatch(
  database: Database,
  shards: number,
  messages: readonly LedgerMessage[],
): Promise<readonly Gap[]> {
  try {
    return await database.orm.em.fork().transactional(async (em) => {
      await lockShards(em, shardsOf(messages, shards));
      await writeMirror(em, messages);
      return applyToReadModels(em, shards, messages);
    });
  } catch (cause) {
    throw refusedRows(cause) ? cause : retryable(cause);
  }
}

/** The read models' part of a batch, inside the caller's transaction, which holds the shards' locks. */
export async function applyToReadModels(
  em: EntityManager,
  shards: number,
  messages: readonly LedgerMessage[],
): Promise<readonly Gap[]> {
  const known = await findSessions(em, [...new Set(messages.map(({ session }) => session))]);
  const { overviews, gaps } = project(known, messages);
  await writeSessions(em, overviews);
  for (const shard of shardsOf(messages, shards)) {
    const last = messages.findLast(({ session }) => shardOf(session, shards) === shard);
    if (last !== undefined) await markApplied(em, { projection: SESSIONS_PROJECTION, shard, sequence: last.sequence });
  }
  return gaps;
}

/** Until the transaction ends, no other projector or rebuild works on these shards. In order, so that none waits for another in a ring. */
export async function lockShards(em: EntityManager, shards: readonly number[]): Promise<void> {
  for (const shard of shards) await em.execute("select pg_advisory_xact_lock(?, ?)", [SHARD_LOCK_CLASS, shard]);
}

function shardsOf(messages: readonly LedgerMessage[], shards: number): number[] {
  return [...new Set(messages.map(({ session }) => shardOf(session, shards)))].sort((a, b) => a - b);
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
