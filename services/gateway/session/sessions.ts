// Commands and questions about one session. On a warm session a command is one append: it is decided on the fold
// at hand, and only when another writer was first, or the answer would be no, is the tail read and decided again.
import type { SessionDetail } from "#schemas/api/session.ts";
import { askDatabaseIfThere } from "#shared/database/ask.ts";
import type { Database } from "#shared/database/database.ts";
import { findSession } from "#shared/database/sessions.ts";
import { openSnapshots } from "#shared/database/snapshots.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { type Decider, type Folded, fold, handleCommand } from "#shared/ledger/handle-command.ts";
import { type Cause, type Ledger, type LedgerMessage, NEW_SESSION, VersionConflict } from "#shared/ledger/ledger.ts";
import { foldFrom, keepFold, SNAPSHOT_EVERY_MESSAGES } from "#shared/ledger/snapshots.ts";
import type { Log } from "#shared/service/log.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { decide, type SessionCommand } from "./decide.ts";
import { FoldCache } from "./fold-cache.ts";
import { evolve, initialState, type Session } from "./session.ts";
import { gatewayFold } from "./snapshot.ts";

const SESSIONS_CACHED_MAX = 1_000;

const decider = { initialState, evolve, decide } satisfies Decider<Session, SessionCommand>;

export type Sessions = Readonly<{
  ledger: Ledger;
  database: Database;
  /** The fold that is kept of the session, or none yet. */
  restore: (session: string) => Promise<Folded<Session>>;
  folds: FoldCache<Session>;
  overviews: FoldCache<SessionDetail | undefined>;
}>;

/** A command's end: the session after it, and the message that it added, if it did. */
export type Outcome = Folded<Session> & Readonly<{ appended: LedgerMessage | undefined }>;

export function openSessions(ledger: Ledger, database: Database, log: Log): Sessions {
  const snapshots = openSnapshots(database);
  const onFailure = (error: unknown) => log.warn({ failure: failureOf(error) }, "A fold could not be kept or read");
  const grown = (session: string, folded: Folded<Session>) =>
    void keepFold(snapshots, gatewayFold, session, folded, onFailure);
  const growth = { every: SNAPSHOT_EVERY_MESSAGES, grown };
  return {
    ledger,
    database,
    restore: (session) => foldFrom(snapshots, gatewayFold, session, initialState, onFailure),
    folds: new FoldCache(SESSIONS_CACHED_MAX, (state, message) => fold(evolve, state, [message]), growth),
    overviews: new FoldCache(SESSIONS_CACHED_MAX, evolveOverview),
  };
}

export function observe({ folds, overviews }: Sessions, message: LedgerMessage): void {
  folds.observe(message);
  overviews.observe(message);
}

/** Throws the Refusals of `decide`. Resolves when the events are stored. */
export async function run(
  sessions: Sessions,
  session: string,
  command: SessionCommand,
  cause: Cause,
): Promise<Outcome> {
  step("gateway.request.deciding");
  const warm = sessions.folds.get(session);
  const quick = warm === undefined ? undefined : await runOn(warm, { sessions, session, command, cause });
  const isNew = command.type === "CreateSession";
  const known = warm ?? (isNew ? undefined : await opened(sessions, session));
  const outcome = quick ?? (await handleCommand(sessions.ledger, decider, { session, command, cause, known }));
  step("gateway.request.stored");
  sessions.folds.set(session, { state: outcome.state, version: outcome.version });
  return outcome;
}

/** Of a session that nothing is known of here: its kept fold, and what the ledger has beyond it. */
async function opened({ ledger, restore, folds }: Sessions, session: string): Promise<Folded<Session>> {
  const kept = await restore(session);
  const { messages, version } = await ledger.read(session, kept.version);
  const folded = { state: fold(evolve, kept.state, messages), version };
  folds.set(session, folded, messages.length);
  return folded;
}

/** Undefined when the fold is not enough to go by: it may be behind. */
async function runOn(
  known: Folded<Session>,
  { sessions, session, command, cause }: { sessions: Sessions; session: string; command: SessionCommand; cause: Cause },
): Promise<Outcome | undefined> {
  const events = decidedOn(known.state, command);
  if (events.length === 0) return undefined;
  try {
    const appended = await sessions.ledger.append(session, known.version, events, cause);
    const version = { sequence: appended.sequence, hash: appended.hash };
    return { state: fold(evolve, known.state, [appended]), version, appended };
  } catch (error) {
    if (error instanceof VersionConflict) return undefined;
    throw error;
  }
}

function decidedOn(state: Session, command: SessionCommand) {
  try {
    return decide(state, command);
  } catch (error) {
    // The refusal may rest on an old fold; it is decided again on the newest one, and answered then.
    if (error instanceof Refusal) return [];
    throw error;
  }
}

/** As of the ledger's last message: the read model's row, and what it does not have yet. Throws `session_not_found`. */
export async function overviewOf(sessions: Sessions, session: string): Promise<SessionDetail> {
  const known = sessions.overviews.get(session) ?? (await storedOverview(sessions.database, session));
  const { messages, version } = await sessions.ledger.read(session, known.version);
  const state = messages.reduce(evolveOverview, known.state);
  if (state === undefined) {
    throw new Refusal("session_not_found", "There is no such session", { next: "List the sessions for their ids." });
  }
  sessions.overviews.set(session, { state, version });
  return state;
}

async function storedOverview(database: Database, session: string): Promise<Folded<SessionDetail | undefined>> {
  const stored = await askDatabaseIfThere(() => findSession(database, session));
  if (stored === undefined) return { state: undefined, version: NEW_SESSION };
  return { state: stored.session, version: stored.version };
}
