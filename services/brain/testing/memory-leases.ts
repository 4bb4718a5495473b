// Leases of brains in one process: one holder at a time, lost when a test says so.
import type { Lease, Leases } from "#shared/leases/leases.ts";

export class MemoryLeases {
  readonly #held = new Map<string, { holder: string; lost: AbortController }>();

  open(holder: string): Leases {
    return { acquire: async (session) => this.#acquire(session, holder) };
  }

  /** Waits until the session is free and takes it. */
  async take(session: string, holder: string): Promise<Lease> {
    for (;;) {
      const lease = this.#acquire(session, holder);
      if (lease !== undefined) return lease;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  holderOf(session: string): string | undefined {
    return this.#held.get(session)?.holder;
  }

  /** What expiry does: the holder is told, and someone else may have it. */
  expire(session: string): void {
    const held = this.#held.get(session);
    this.#held.delete(session);
    held?.lost.abort(new Error("The lease expired"));
  }

  /** The lease ends without its holder noticing, as for a process that hangs. */
  slip(session: string): void {
    this.#held.delete(session);
  }

  #acquire(session: string, holder: string): Lease | undefined {
    if (this.#held.has(session)) return undefined;
    const held = { holder, lost: new AbortController() };
    this.#held.set(session, held);
    return {
      session,
      lost: held.lost.signal,
      release: async () => {
        if (this.#held.get(session) === held) this.#held.delete(session);
      },
    };
  }
}
