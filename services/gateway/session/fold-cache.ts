// Folds of the sessions that were used last, so that a request on a warm session need not read its history.
// An entry may be behind: whoever writes finds that out by the expected version, whoever reads asks for the tail.
import type { Folded } from "#shared/ledger/handle-command.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

export class FoldCache<State> {
  readonly #entriesMax: number;
  readonly #evolve: (state: State, message: LedgerMessage) => State;
  readonly #entries = new Map<string, Folded<State>>();

  constructor(entriesMax: number, evolve: (state: State, message: LedgerMessage) => State) {
    this.#entriesMax = entriesMax;
    this.#evolve = evolve;
  }

  get(session: string): Folded<State> | undefined {
    return this.#entries.get(session);
  }

  /** An older fold than the known one is not taken. The least recently used entry makes room. */
  set(session: string, folded: Folded<State>): void {
    const known = this.#entries.get(session);
    const newest = known !== undefined && known.version.sequence > folded.version.sequence ? known : folded;
    this.#entries.delete(session);
    this.#entries.set(session, newest);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#entriesMax && oldest !== undefined) this.#entries.delete(oldest);
  }

  /** Keeps a known session up to date with what other services write, as long as no message is missing between. */
  observe(message: LedgerMessage): void {
    const known = this.#entries.get(message.session);
    if (known === undefined || known.version.hash !== message.prev) return;
    const version = { sequence: message.sequence, hash: message.hash };
    this.#entries.set(message.session, { state: this.#evolve(known.state, message), version });
  }
}
