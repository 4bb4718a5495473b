// Folds of sessions that nobody works on, kept for a while so that the next message needs no read. An idle session
// costs nothing after that: it is folded again when it is next heard of.
import type { SessionRecord } from "../session/record.ts";

/** How long a session may be idle before its fold is forgotten, and its link to the sandbox closed. */
export const WARM_MS = 60_000;
export const WARM_SESSIONS_MAX = 256;

type Kept = { record: SessionRecord; usedAt: number };
type Limits = Readonly<{ warmMs: number; sessionsMax: number; now: () => number }>;

export class WarmRecords {
  readonly #open: (session: string) => SessionRecord;
  readonly #limits: Limits;
  /** The one used last stands last. */
  readonly #kept = new Map<string, Kept>();

  constructor(open: (session: string) => SessionRecord, limits: Limits) {
    this.#open = open;
    this.#limits = limits;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** The session's fold if there is one, which does not count as its use. */
  known(session: string): SessionRecord | undefined {
    return this.#kept.get(session)?.record;
  }

  /** The session's fold; an empty one when there is none yet. */
  use(session: string): SessionRecord {
    const record = this.known(session) ?? this.#open(session);
    this.#kept.delete(session);
    this.#kept.set(session, { record, usedAt: this.#limits.now() });
    return record;
  }

  /** Forgets what was not used for long, and the longest unused above the limit; never a busy one. */
  sweep(isBusy: (session: string) => boolean): void {
    const usedBefore = this.#limits.now() - this.#limits.warmMs;
    for (const [session, { usedAt }] of this.#kept) {
      const isOver = usedAt < usedBefore || this.#kept.size > this.#limits.sessionsMax;
      if (isOver && !isBusy(session)) this.#kept.delete(session);
    }
  }
}
