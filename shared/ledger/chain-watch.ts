// What a consumer of the ledger has seen last of each session, so that it notices a break of the hash chain: a message
// between two was lost, on the way or in the store. A message that comes again is no break.
import type { Version } from "./ledger.ts";

/** Sessions that are remembered; the one seen longest ago is forgotten, and its next message is taken as it is. */
const SESSIONS_MAX = 4_096;

/** The message `sequence` does not follow on `after`, which was the last that was seen of the session. */
export type Gap = Readonly<{ session: string; after: number; sequence: number }>;

export type Link = Readonly<{ session: string; sequence: number; prev: string; hash: string }>;

export class ChainWatch {
  readonly #last = new Map<string, Version>();
  #gaps = 0;

  /** How many gaps were found so far. */
  get gaps(): number {
    return this.#gaps;
  }

  /** The gap before this message, if there is one. It does not count as seen before `saw`. */
  gapBefore({ session, sequence, prev }: Link): Gap | undefined {
    const last = this.#last.get(session);
    if (last === undefined || sequence <= last.sequence || prev === last.hash) return undefined;
    return { session, after: last.sequence, sequence };
  }

  saw({ session, sequence, hash }: Omit<Link, "prev">): void {
    const last = this.#last.get(session);
    if (last !== undefined && sequence <= last.sequence) return;
    this.#last.delete(session);
    this.#last.set(session, { sequence, hash });
    for (const oldest of this.#last.keys()) {
      if (this.#last.size <= SESSIONS_MAX) return;
      this.#last.delete(oldest);
    }
  }

  /** Counts a gap that was not merely on the way; returns how many there are now. */
  count(): number {
    return ++this.#gaps;
  }
}
