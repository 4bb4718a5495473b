// Sessions that want something of a brain while another one holds them. Each is looked at again on its own, so that
// the order of its shard does not wait for a lease. The message that told of it is acknowledged by then: should this
// process die meanwhile, every brain finds the session among the unsettled ones of the read model.
import { waited } from "#shared/ledger/delivery.ts";

/** The other brain usually has ended its turn and is just letting go. */
export const HELD_MS = 10;
export const HELD_MS_MAX = 500;

export class HeldSessions {
  /** Resolves with true when the session needs no further look. */
  readonly #look: (session: string) => Promise<boolean>;
  readonly #waiting = new Map<string, Promise<void>>();
  readonly #closing: AbortSignal;

  constructor(look: (session: string) => Promise<boolean>, closing: AbortSignal) {
    this.#look = look;
    this.#closing = closing;
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(session: string): void {
    if (this.#waiting.has(session)) return;
    this.#waiting.set(
      session,
      this.#wait(session).finally(() => this.#waiting.delete(session)),
    );
  }

  /** To be awaited once `closing` has aborted. */
  async ended(): Promise<void> {
    await Promise.all(this.#waiting.values());
  }

  async #wait(session: string): Promise<void> {
    for (let ms = HELD_MS; await waited(ms, this.#closing); ms = Math.min(ms * 2, HELD_MS_MAX)) {
      if (await this.#look(session)) return;
    }
  }
}
