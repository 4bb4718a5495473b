// Who waits for the sandbox to be there.
import type { Boot } from "./connection.ts";
import { SandboxLost } from "./link.ts";

type Waiter = { resolve: (boot: Boot) => void; reject: (error: Error) => void; timer: NodeJS.Timeout };

export class Waiters {
  readonly #waiters = new Set<Waiter>();

  get size(): number {
    return this.#waiters.size;
  }

  wait(withinMs: number): Promise<Boot> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new SandboxLost("unreachable", `The sandbox was not there within ${withinMs} ms`));
      }, withinMs);
      const waiter = { resolve, reject, timer };
      this.#waiters.add(waiter);
    });
  }

  ready(boot: Boot): void {
    for (const waiter of this.#empty()) waiter.resolve(boot);
  }

  fail(error: Error): void {
    for (const waiter of this.#empty()) waiter.reject(error);
  }

  #empty(): Waiter[] {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const { timer } of waiters) clearTimeout(timer);
    return waiters;
  }
}
