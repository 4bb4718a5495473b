// Drops the read models and makes them again from the mirror, to the same rows. One transaction: readers see the
// old rows until the new ones are all there, projectors wait, and a process that dies in here changes nothing.
import type { PoolClient } from "pg";
import type { SessionDetail } from "#schemas/api/session.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import type { Database } from "#shared/database/database.ts";
import { mirroredSessions, mirrorPage } from "#shared/database/mirror.ts";
import { writeBatch } from "#shared/database/write-batch.ts";
import { decodeMessage } from "#shared/ledger/codec.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { marksOf } from "./apply.ts";

const SESSIONS_PAGE = 200;
const MESSAGES_PAGE = 500;

export type Rebuild = Readonly<{
  database: Database;
  blobs: Blobs;
  shards: number;
  /** Hears how many messages were replayed so far. */
  onProgress?: (messages: number) => void;
}>;

/**
 * Resolves with the number of messages that were replayed.
 * Throws what decodeMessage throws for a message that cannot be read; then nothing is changed.
 */
export async function rebuildReadModels(rebuild: Rebuild): Promise<{ messages: number }> {
  const connection = await rebuild.database.pool.connect();
  try {
    await connection.query("begin");
    // A projector's statement names both tables, so it waits here before it adds to the mirror.
    await connection.query("lock table session_overview, applied_sequence in share row exclusive mode");
    await connection.query("delete from session_overview");
    await connection.query("delete from applied_sequence where projection = $1", [SESSIONS_PROJECTION]);
    const messages = await replayAll(rebuild, connection);
    await connection.query("commit");
    connection.release();
    return { messages };
  } catch (error) {
    // A connection that is thrown away takes its transaction along.
    connection.release(true);
    throw error;
  }
}

/** Into the tables that the connection sees under their names. Resolves with the number of messages. */
export async function replayAll(rebuild: Rebuild, connection: PoolClient): Promise<number> {
  let count = 0;
  for (let after = ""; ; ) {
    const sessions = await mirroredSessions(connection, after, SESSIONS_PAGE);
    const last = sessions.at(-1);
    if (last === undefined) return count;
    for (const session of sessions) {
      count += await replay(rebuild, connection, session);
      rebuild.onProgress?.(count);
    }
    after = last;
  }
}

async function replay({ blobs, shards }: Rebuild, connection: PoolClient, session: string): Promise<number> {
  let overview: SessionDetail | undefined;
  let version = NEW_SESSION;
  for (let count = 0; ; ) {
    const page = await mirrorPage(connection, session, version.sequence, MESSAGES_PAGE);
    for (const stored of page) {
      const message = await decodeMessage(stored, blobs);
      overview = evolveOverview(overview, message);
      version = { sequence: message.sequence, hash: message.hash };
    }
    count += page.length;
    if (page.length === MESSAGES_PAGE) continue;
    const overviews = overview === undefined ? [] : [{ session: overview, version }];
    const marks = marksOf([{ session, sequence: version.sequence }], shards);
    await writeBatch(connection, { messages: [], overviews, marks });
    return count;
  }
}
