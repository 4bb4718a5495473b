// The mirror: every ledger message as it is stored, in order, as far as the projector has come.
import type { EntityManager } from "@mikro-orm/postgresql";
import { z } from "zod";
import type { StoredMessage } from "#shared/ledger/codec.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import type { Database } from "./database.ts";
import { ledgerMessageEntity } from "./entities.ts";

const rows = z.array(z.object({ sequence: z.coerce.number().int(), message: z.instanceof(Uint8Array) }));

const columns = "select sequence, message from ledger_message";

export function mirrorReader(database: Database): MirrorReader {
  return {
    read: (session, afterSequence) =>
      query(database, "mirror-read", `${columns} where session = $1 and sequence > $2 order by sequence`, [
        session,
        afterSequence,
      ]),
  };
}

/** At most `limit` messages of the session after `afterSequence`, in order. */
export function mirrorPage(
  database: Database,
  session: string,
  afterSequence: number,
  limit: number,
): Promise<StoredMessage[]> {
  const sql = `${columns} where session = $1 and sequence > $2 order by sequence limit $3`;
  return query(database, "mirror-page", sql, [session, afterSequence, limit]);
}

/** The session's last message at or before `sequence`, if the mirror has one: where a reader's cursor stands. */
export async function mirrorAnchor(
  database: Database,
  session: string,
  sequence: number,
): Promise<StoredMessage | undefined> {
  const sql = `${columns} where session = $1 and sequence <= $2 order by sequence desc limit 1`;
  const [row] = await query(database, "mirror-anchor", sql, [session, sequence]);
  return row;
}

/** At most `limit` messages of all sessions after `afterSequence`, in the order of the stream. */
export function mirrorScan(database: Database, afterSequence: number, limit: number): Promise<StoredMessage[]> {
  const sql = `${columns} where sequence > $1 order by sequence limit $2`;
  return query(database, "mirror-scan", sql, [afterSequence, limit]);
}

/** Adds messages to the mirror inside the caller's transaction; those that it has already stay as they are. */
export async function writeMirror(em: EntityManager, messages: readonly LedgerMessage[]): Promise<void> {
  const data = messages.map(({ session, sequence, bytes, at }) => ({
    session,
    sequence,
    message: bytes,
    at: new Date(at),
  }));
  await em.upsertMany(ledgerMessageEntity, data, {
    onConflictFields: ["session", "sequence"],
    onConflictAction: "ignore",
  });
}

async function query(database: Database, name: string, text: string, values: unknown[]): Promise<StoredMessage[]> {
  const result = await database.pool.query({ name, text, values });
  return rows.parse(result.rows).map(({ sequence, message }) => ({ sequence, bytes: message }));
}
