// Sessions whose work stopped with an error and whose turn is still open. Each is taken up again, ever more
// rarely, so that a session that cannot be helped neither fills its ledger nor keeps a brain busy.

export const REST_MS = 2_000;
export const REST_MS_MAX = 300_000;

export class Troubles {
  readonly #now: () => number;
  readonly #noted = new Map<string, { times: number; until: number }>();

  /** `now`: milliseconds, monotonic. */
  constructor(now: () => number) {
    this.#now = now;
  }

  note(session: string): void {
    const times = (this.#noted.get(session)?.times ?? 0) + 1;
    const restMs = times === 1 ? 0 : Math.min(REST_MS * 2 ** (times - 1), REST_MS_MAX);
    this.#noted.set(session, { times, until: this.#now() + restMs });
  }

  forget(session: string): void {
    this.#noted.delete(session);
  }

  /** Forgets those that nobody took up for long: somebody else did, or they are over. */
  sweep(): void {
    for (const [session, { until }] of this.#noted) if (until + REST_MS_MAX < this.#now()) this.#noted.delete(session);
  }

  isResting(session: string): boolean {
    return (this.#noted.get(session)?.until ?? 0) > this.#now();
  }
}
