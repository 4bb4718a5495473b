import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { type Cause, type Ledger, type LedgerMessage, NEW_SESSION, type Version, VersionConflict } from "./ledger.ts";

/** Pure: no clock, no id, no I/O. Time and ids arrive in the command. `decide` answers with only its own service's events. */
export type Decider<State, Command, Decided extends PistisEvent = PistisEvent> = Readonly<{
  initialState: State;
  evolve: (state: State, event: PistisEvent) => State;
  decide: (state: State, command: Command) => readonly Decided[];
}>;

export type Folded<State> = Readonly<{ state: State; version: Version }>;

const ATTEMPTS_MAX = 20;
/** Conflicts in a row behind which there is nothing to read. One may be a reader that is a little behind. */
const FRUITLESS_MAX = 2;

export function fold<State>(
  evolve: Decider<State, never>["evolve"],
  from: State,
  messages: readonly LedgerMessage[],
): State {
  return messages.reduce((state, message) => message.events.reduce(evolve, state), from);
}

/**
 * What the session is now; goes on from `known` when it is given, so that only the tail is read. A ledger that goes on
 * elsewhere has lost what `known` is of: then everything is read, which refuses what is broken itself.
 */
export async function load<State>(
  ledger: Ledger,
  decider: Pick<Decider<State, never>, "initialState" | "evolve">,
  session: string,
  known: Folded<State> = { state: decider.initialState, version: NEW_SESSION },
): Promise<Folded<State>> {
  try {
    const { messages, version } = await ledger.read(session, known.version);
    return { state: fold(decider.evolve, known.state, messages), version };
  } catch (error) {
    const isBroken = error instanceof Fatal && error.code === "chain_broken";
    if (!isBroken || known.version.sequence === NEW_SESSION.sequence) throw error;
    return load(ledger, decider, session);
  }
}

/** Takes in a message of a feed; undefined when it does not directly follow what is known. */
export function follow<State>(
  decider: Pick<Decider<State, never>, "initialState" | "evolve">,
  known: Folded<State> = { state: decider.initialState, version: NEW_SESSION },
  message: LedgerMessage,
): Folded<State> | undefined {
  if (message.prev !== known.version.hash) return undefined;
  const { sequence, hash } = message;
  return { state: fold(decider.evolve, known.state, [message]), version: { sequence, hash } };
}

/**
 * Loads the session, decides and appends; folds what is new and decides again when another writer was first. When none
 * was, the ledger has lost what is known, which is dropped.
 * Resolves with the appended message, or with none when there was nothing to decide, and the state after it.
 */
export async function handleCommand<State, Command, Decided extends PistisEvent>(
  ledger: Ledger,
  decider: Decider<State, Command, Decided>,
  request: Readonly<{ session: string; command: Command; cause: Cause; known?: Folded<State> | undefined }>,
): Promise<Folded<State> & { appended: LedgerMessage | undefined }> {
  let folded = await load(ledger, decider, request.session, request.known);
  let fruitless = 0;
  for (let attempt = 1; ; attempt++) {
    const events = decider.decide(folded.state, request.command);
    if (events.length === 0) return { ...folded, appended: undefined };
    try {
      const appended = await ledger.append(request.session, folded.version, events, request.cause);
      const version = { sequence: appended.sequence, hash: appended.hash };
      return { state: fold(decider.evolve, folded.state, [appended]), version, appended };
    } catch (error) {
      if (!(error instanceof VersionConflict) || attempt === ATTEMPTS_MAX) throw error;
      const caughtUp = await load(ledger, decider, request.session, folded);
      fruitless = caughtUp.version.sequence === folded.version.sequence ? fruitless + 1 : 0;
      folded = fruitless < FRUITLESS_MAX ? caughtUp : await load(ledger, decider, request.session);
    }
  }
}
