// Whoever opens something registers how to close it in the same breath.
// Closing runs in reverse, once, and one failure does not skip the rest.

export class Resources {
  #closers: Array<{ name: string; close: () => Promise<unknown> }> = [];
  #closing: Promise<void> | undefined;
  readonly #broken = new AbortController();

  /** Aborts, with the reason, when something that is open has ended by itself and does not come back. */
  get broken(): AbortSignal {
    return this.#broken.signal;
  }

  /** For what has ended by itself. It closes nothing: whoever runs the process does, and ends it. */
  break(reason: Error): void {
    this.#broken.abort(reason);
  }

  add<T>(name: string, resource: T, close: (resource: T) => unknown): T {
    this.#closers.push({ name, close: async () => close(resource) });
    return resource;
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const failures: Error[] = [];
    for (const { name, close } of this.#closers.reverse()) {
      await close().catch((cause: unknown) => failures.push(new Error(`Closing ${name} failed`, { cause })));
    }
    if (failures.length > 0) throw new AggregateError(failures, "Some resources did not close");
  }
}
