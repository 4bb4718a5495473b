// Links of sessions whose turn has ended, kept open for a while: the next turn only raises its epoch on the link,
// which takes one round trip instead of dialling the relay, and that while the model thinks.
import type { SandboxLink } from "#shared/sandbox-link/link.ts";

export type SandboxBoot = Readonly<{ sandboxId: string; generation: number; bootId: string }>;
export type WarmLink = Readonly<{ boot: SandboxBoot; link: SandboxLink }>;

export const WARM_LINKS_MAX = 64;

export class WarmLinks {
  readonly #warmMs: number;
  readonly #kept = new Map<string, WarmLink & { timer: NodeJS.Timeout }>();
  readonly #closing = new Set<Promise<void>>();

  constructor(warmMs: number) {
    this.#warmMs = warmMs;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** The session's link, which is the caller's from now on. */
  take(session: string): WarmLink | undefined {
    const kept = this.#kept.get(session);
    this.#kept.delete(session);
    clearTimeout(kept?.timer);
    return kept;
  }

  keep(session: string, warm: WarmLink): void {
    this.#drop(session);
    const timer = setTimeout(() => this.#drop(session), this.#warmMs).unref();
    this.#kept.set(session, { ...warm, timer });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > WARM_LINKS_MAX && oldest !== undefined) this.#drop(oldest);
  }

  async close(): Promise<void> {
    for (const session of [...this.#kept.keys()]) this.#drop(session);
    await Promise.all(this.#closing);
  }

  #drop(session: string): void {
    const closed = this.take(session)?.link.close();
    if (closed === undefined) return;
    this.#closing.add(closed);
    closed.finally(() => this.#closing.delete(closed)).catch(() => undefined);
  }
}
