// An open session: its fold, the version that the fold stands for, and the brain's appends, one at a time. The
// fold is moved forward by whoever brings messages first: the feed, the answer to an append, or a read. An append
// carries the version that it was decided on, so a cached fold can be late but never wrong.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version, VersionConflict } from "#shared/ledger/ledger.ts";
import { foldFrom, keepFold, noSnapshots, SNAPSHOT_EVERY_MESSAGES, type Snapshots } from "#shared/ledger/snapshots.ts";
import { type BrainCommand, decide } from "./decide.ts";
import { evolve, initialState, type Session } from "./session.ts";
import { brainFold } from "./snapshot.ts";

const ATTEMPTS_MAX = 20;

/** Somebody else wrote first: what was foreseen is not stored, and the fold has what was written instead. */
export class Overtaken extends Error {
  override readonly name = "Overtaken";
}

export type Ahead = Readonly<{ ahead: Session; stored: Promise<Session> }>;

export class SessionRecord {
  readonly session: string;
  readonly #ledger: Ledger;
  readonly #snapshots: Snapshots;
  #state: Session = initialState;
  #version: Version = NEW_SESSION;
  #lastMessageId: string | null = null;
  /** Messages that were folded since the fold was last kept. */
  #unkept = 0;
  #appending: Promise<unknown> = Promise.resolve();
  readonly #watchers = new Set<() => void>();

  constructor(ledger: Ledger, session: string, snapshots: Snapshots = noSnapshots) {
    this.#ledger = ledger;
    this.#snapshots = snapshots;
    this.session = session;
  }

  get state(): Session {
    return this.#state;
  }

  get sequence(): number {
    return this.#version.sequence;
  }

  /** Folds what is new. False when messages before these are missing: then `catchUp` has to read them. */
  absorb(messages: readonly LedgerMessage[]): boolean {
    const news = messages.filter(({ sequence }) => sequence > this.#version.sequence);
    const isComplete = news.every((message) => this.#fold(message));
    if (news.length > 0) for (const watcher of [...this.#watchers]) watcher();
    return isComplete;
  }

  #fold(message: LedgerMessage): boolean {
    if (message.prev !== this.#version.hash) return false;
    this.#state = message.events.reduce<Session>(evolve, this.#state);
    this.#version = { sequence: message.sequence, hash: message.hash };
    this.#lastMessageId = message.id;
    this.#unkept++;
    return true;
  }

  /** Reads what is new; of a session that nothing is known of, what is newer than its kept fold. */
  async catchUp(): Promise<void> {
    if (this.#version.sequence === NEW_SESSION.sequence) await this.#restore();
    const { messages } = await this.#ledger.read(this.session, this.#version);
    this.absorb(messages);
  }

  /** Keeps the fold when enough of it is new. Resolves when that is done; a failure goes to `onFailure`. */
  async keep(onFailure: (error: unknown) => void): Promise<void> {
    if (this.#unkept < SNAPSHOT_EVERY_MESSAGES) return;
    this.#unkept = 0;
    const state = { state: this.#state, lastMessageId: this.#lastMessageId };
    await keepFold(this.#snapshots, brainFold, this.session, { state, version: this.#version }, onFailure);
  }

  async #restore(): Promise<void> {
    const initial = { state: initialState, lastMessageId: null };
    // Without the kept fold everything is read, which says the same.
    const { state, version } = await foldFrom(this.#snapshots, brainFold, this.session, initial, () => undefined);
    if (version.sequence <= this.#version.sequence) return;
    this.#state = state.state;
    this.#lastMessageId = state.lastMessageId;
    this.#version = version;
    this.#unkept = 0;
  }

  /** Decides on the newest state and appends; resolves when it is stored. Appends happen in the order of the calls. */
  commit(command: BrainCommand): Promise<Session> {
    return this.#inOrder(() => this.#commit(command));
  }

  /**
   * Commits and answers at once with the state as it will be if nobody else writes first. Whoever goes on with
   * it awaits `stored` before the next effect that others can see. `orNotAtAll`: what is stored is what was foreseen,
   * or nothing, and then `stored` rejects with Overtaken.
   */
  commitAhead(command: BrainCommand, { orNotAtAll = false } = {}): Ahead {
    const [version, events] = [this.#version, decide(this.#state, command)];
    const ahead = events.reduce<Session>(evolve, this.#state);
    const stored = orNotAtAll ? this.#inOrder(() => this.#storeForeseen(version, events)) : this.commit(command);
    // Whoever goes on with `ahead` may fail before it looks at `stored`; that is not a second failure.
    stored.catch(() => undefined);
    return { ahead, stored };
  }

  #inOrder(append: () => Promise<Session>): Promise<Session> {
    const appended = this.#appending.then(append);
    this.#appending = appended.catch(() => undefined);
    return appended;
  }

  /** Calls `look` after every change until the returned function is called. */
  watch(look: (state: Session) => void): () => void {
    const watcher = () => look(this.#state);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  async #commit(command: BrainCommand): Promise<Session> {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const events: readonly PistisEvent[] = decide(this.#state, command);
      if (events.length === 0) return this.#state;
      if (await this.#append(events)) return this.#state;
      await this.catchUp();
    }
    throw new Retryable("session_contended", `${this.session} is written faster than this brain can decide`, {
      retryAfterMs: 1_000,
    });
  }

  async #storeForeseen(version: Version, events: readonly PistisEvent[]): Promise<Session> {
    if (this.#version === version && (events.length === 0 || (await this.#append(events)))) return this.#state;
    await this.catchUp();
    throw new Overtaken(`${this.session} was written to by another service`);
  }

  async #append(events: readonly PistisEvent[]): Promise<boolean> {
    const cause = { correlationId: correlationOf(this.#state, events, this.session), causationId: this.#lastMessageId };
    try {
      this.absorb([await this.#ledger.append(this.session, this.#version, events, cause)]);
      return true;
    } catch (error) {
      if (error instanceof VersionConflict) return false;
      throw error;
    }
  }
}

/** The user's message that the events answer. */
function correlationOf(state: Session, events: readonly PistisEvent[], session: string): string {
  const started = events.find((event) => event.type === "TurnStarted");
  if (started !== undefined) return started.data.messageIds[0] ?? session;
  return state.status === "working" ? state.turn.messageId : session;
}

/** Resolves with the first answer of `look` that is not undefined; rejects with the signal's reason when it aborts. */
export async function until<Answer>(
  record: SessionRecord,
  look: (state: Session) => Answer | undefined,
  signal: AbortSignal,
): Promise<Answer> {
  signal.throwIfAborted();
  const now = look(record.state);
  if (now !== undefined) return now;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const unwatch = record.watch((state) => {
    // A question that has no answer any more is the asker's failure, not that of whoever brought the news.
    try {
      const answer = look(state);
      if (answer !== undefined) resolve(answer);
    } catch (error) {
      reject(error);
    }
  });
  try {
    return await promise;
  } finally {
    unwatch();
    signal.removeEventListener("abort", onAbort);
  }
}
