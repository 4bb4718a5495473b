// Folds of the sessions that were used last, so that a request on a warm session need not read its history.
// An entry may be behind: whoever writes finds that out by the expected version, whoever reads asks for the tail.
import type { Folded } from "#shared/ledger/handle-command.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

/** Called with a fold once so many messages were folded since the last time. */
export type Growth<State> = Readonly<{ every: number; grown: (session: string, folded: Folded<State>) => void }>;

type Entry<State> = Readonly<{ folded: Folded<State>; unkept: number }>;

export class FoldCache<State> {
  readonly #entriesMax: number;
  readonly #growth: Growth<State> | undefined;
  readonly #evolve: (state: State, message: LedgerMessage) => State;
  readonly #entries = new Map<string, Entry<State>>();

  constructor(entriesMax: number, evolve: (state: State, message: LedgerMessage) => State, growth?: Growth<State>) {
    this.#entriesMax = entriesMax;
    this.#growth = growth;
    this.#evolve = evolve;
  }

  get(session: string): Folded<State> | undefined {
    return this.#entries.get(session)?.folded;
  }

  /**
   * An older fold than the known one is not taken. The least recently used entry makes room. `messages`: how many
   * were folded since the entry was last set.
   */
  set(session: string, folded: Folded<State>, messages = 1): void {
    const known = this.#entries.get(session);
    const isOlder = known !== undefined && known.folded.version.sequence > folded.version.sequence;
    this.#entries.delete(session);
    if (isOlder) this.#entries.set(session, known);
    else this.#put(session, { folded, unkept: (known?.unkept ?? 0) + messages });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#entriesMax && oldest !== undefined) this.#entries.delete(oldest);
  }

  /** Keeps a known session up to date with what other services write, as long as no message is missing between. */
  observe(message: LedgerMessage): void {
    const known = this.#entries.get(message.session);
    if (known === undefined || known.folded.version.hash !== message.prev) return;
    const version = { sequence: message.sequence, hash: message.hash };
    const folded = { state: this.#evolve(known.folded.state, message), version };
    this.#put(message.session, { folded, unkept: known.unkept + 1 });
  }

  #put(session: string, { folded, unkept }: Entry<State>): void {
    const isGrown = this.#growth !== undefined && unkept >= this.#growth.every;
    this.#entries.set(session, { folded, unkept: isGrown ? 0 : unkept });
    if (isGrown) this.#growth?.grown(session, folded);
  }
}
