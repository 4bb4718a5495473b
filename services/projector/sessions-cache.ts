// The rows that the projector wrote last, so that a busy session's next message needs no read. A row counts only
// while the next message follows on it; else it is read again, since another replica may have gone on.
import type { Database } from "#shared/database/database.ts";
import { findSessions, type StoredOverview } from "#shared/database/sessions.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

const SESSIONS_MAX = 500;

export type SessionsCache = Map<string, StoredOverview>;

/** The rows that the sessions of these messages have, from the cache or the database. */
export async function knownSessions(
  cache: SessionsCache,
  database: Database,
  messages: readonly LedgerMessage[],
): Promise<StoredOverview[]> {
  const firsts = new Map<string, LedgerMessage>();
  for (const message of messages) if (!firsts.has(message.session)) firsts.set(message.session, message);
  const known: StoredOverview[] = [];
  const unknown: string[] = [];
  for (const [session, first] of firsts) {
    const cached = cache.get(session);
    if (cached?.version.hash === first.prev) known.push(cached);
    else if (first.prev !== "") unknown.push(session);
  }
  return unknown.length === 0 ? known : [...known, ...(await findSessions(database, unknown))];
}

/** To be called once the rows are written. The least recently written sessions are forgotten. */
export function remember(cache: SessionsCache, overviews: readonly StoredOverview[]): void {
  for (const overview of overviews) {
    cache.delete(overview.session.id);
    cache.set(overview.session.id, overview);
  }
  for (const session of cache.keys()) {
    if (cache.size <= SESSIONS_MAX) return;
    cache.delete(session);
  }
}
