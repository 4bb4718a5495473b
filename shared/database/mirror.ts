// The mirror: every ledger message as it is stored, in order, as far as the projector has come.
import { z } from "zod";
import type { StoredMessage } from "#shared/ledger/codec.ts";
import type { Mirror } from "#shared/ledger/mirror.ts";
import { mirrorScan } from "./mirror-scan.ts";
import type { Connection, DatabasePool } from "./pool.ts";

const rows = z.array(z.object({ sequence: z.coerce.number().int(), message: z.instanceof(Uint8Array) }));

const sessions = z.array(z.object({ session: z.string() }));
const places = z.array(z.object({ sequence: z.coerce.number().int() }));

const columns = "select sequence, message from ledger_message";

export function mirrorReader(database: Pick<DatabasePool, "pool">): Mirror {
  return {
    ...mirrorScan(database),
    read: (session, afterSequence) =>
      query(database.pool, "mirror-read", `${columns} where session = $1 and sequence > $2 order by sequence`, [
        session,
        afterSequence,
      ]),
  };
}

/** At most `limit` messages of the session after `afterSequence`, in order. */
export function mirrorPage(
  connection: Connection,
  session: string,
  afterSequence: number,
  limit: number,
): Promise<StoredMessage[]> {
  const sql = `${columns} where session = $1 and sequence > $2 order by sequence limit $3`;
  return query(connection, "mirror-page", sql, [session, afterSequence, limit]);
}

/** At most `limit` messages of the session before `beforeSequence`, the newest of them, in order. */
export async function mirrorPageBefore(
  connection: Connection,
  session: string,
  beforeSequence: number,
  limit: number,
): Promise<StoredMessage[]> {
  const sql = `${columns} where session = $1 and sequence < $2 order by sequence desc limit $3`;
  return (await query(connection, "mirror-page-before", sql, [session, beforeSequence, limit])).reverse();
}

/** The session's last message at or before `sequence`, if the mirror has one: where a reader's cursor stands. */
export async function mirrorAnchor(
  connection: Connection,
  session: string,
  sequence: number,
): Promise<StoredMessage | undefined> {
  const sql = `${columns} where session = $1 and sequence <= $2 order by sequence desc limit 1`;
  const [row] = await query(connection, "mirror-anchor", sql, [session, sequence]);
  return row;
}

/** At most `limit` ids of sessions that have messages, in their order, after `after`. */
export async function mirroredSessions(connection: Connection, after: string, limit: number): Promise<string[]> {
  const text = "select distinct session from ledger_message where session > $1 order by session limit $2";
  const result = await connection.query({ text, values: [after, limit] });
  return sessions.parse(result.rows).map(({ session }) => session);
}

/** Those of these sequences that the mirror has. */
export async function mirroredAmong(connection: Connection, sequences: readonly number[]): Promise<Set<number>> {
  const text = "select sequence from ledger_message where sequence = any($1::bigint[])";
  const result = await connection.query({ text, values: [sequences] });
  return new Set(places.parse(result.rows).map(({ sequence }) => sequence));
}

async function query(connection: Connection, name: string, text: string, values: unknown[]): Promise<StoredMessage[]> {
  const result = await connection.query({ name, text, values });
  return rows.parse(result.rows).map(({ sequence, message }) => ({ sequence, bytes: message }));
}
