// Folds of recent sessions, kept up to date by the feed: a turn starts in many sessions for each that has something to
// copy, and telling them apart must not take a read of the whole session.
import { type Folded, follow } from "#shared/ledger/handle-command.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { evolve, initialState, type SessionRepository } from "./repository.ts";

const SESSIONS_MAX = 5_000;

export class RepositoryFolds {
  readonly #folds = new Map<string, Folded<SessionRepository>>();

  get(session: string): Folded<SessionRepository> | undefined {
    return this.#folds.get(session);
  }

  /** A fold that is older than the known one is not taken. The one that changed the longest ago makes room. */
  set(session: string, folded: Folded<SessionRepository>): void {
    const known = this.#folds.get(session);
    if (known !== undefined && known.version.sequence > folded.version.sequence) return;
    this.#folds.delete(session);
    this.#folds.set(session, folded);
    const [oldest] = this.#folds.keys();
    if (this.#folds.size > SESSIONS_MAX && oldest !== undefined) this.#folds.delete(oldest);
  }

  /** What the session is at this message of the feed; undefined when something before it is not known. */
  at(message: LedgerMessage): SessionRepository | undefined {
    const folded = follow({ initialState, evolve }, this.#folds.get(message.session), message);
    if (folded !== undefined) this.set(message.session, folded);
    return folded?.state;
  }
}
