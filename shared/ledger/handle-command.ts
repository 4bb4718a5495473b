import type { PistisEvent } from "#schemas/ledger/event.ts";
import { type Cause, type Ledger, type LedgerMessage, NEW_SESSION, type Version, VersionConflict } from "./ledger.ts";

/** Pure: no clock, no id, no I/O. Time and ids arrive in the command. `decide` answers with only its own service's events. */
export type Decider<State, Command, Decided extends PistisEvent = PistisEvent> = Readonly<{
  initialState: State;
  evolve: (state: State, event: PistisEvent) => State;
  decide: (state: State, command: Command) => readonly Decided[];
}>;

export type Folded<State> = Readonly<{ state: State; version: Version }>;

const ATTEMPTS_MAX = 20;

export function fold<State>(
  evolve: Decider<State, never>["evolve"],
  from: State,
  messages: readonly LedgerMessage[],
): State {
  return messages.reduce((state, message) => message.events.reduce(evolve, state), from);
}

/** What the session is now; goes on from `known` when it is given, so that only the tail is read. */
export async function load<State>(
  ledger: Ledger,
  decider: Pick<Decider<State, never>, "initialState" | "evolve">,
  session: string,
  known: Folded<State> = { state: decider.initialState, version: NEW_SESSION },
): Promise<Folded<State>> {
  const { messages, version } = await ledger.read(session, known.version);
  return { state: fold(decider.evolve, known.state, messages), version };
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
 * Loads the session, decides and appends; folds what is new and decides again when another writer was first.
 * Resolves with the appended message, or with none when there was nothing to decide, and the state after it.
 */
export async function handleCommand<State, Command, Decided extends PistisEvent>(
  ledger: Ledger,
  decider: Decider<State, Command, Decided>,
  request: Readonly<{ session: string; command: Command; cause: Cause; known?: Folded<State> | undefined }>,
): Promise<Folded<State> & { appended: LedgerMessage | undefined }> {
  let folded = await load(ledger, decider, request.session, request.known);
  for (let attempt = 1; ; attempt++) {
    const events = decider.decide(folded.state, request.command);
    if (events.length === 0) return { ...folded, appended: undefined };
    try {
      const appended = await ledger.append(request.session, folded.version, events, request.cause);
      const version = { sequence: appended.sequence, hash: appended.hash };
      return { state: fold(decider.evolve, folded.state, [appended]), version, appended };
    } catch (error) {
      if (!(error instanceof VersionConflict) || attempt === ATTEMPTS_MAX) throw error;
      folded = await load(ledger, decider, request.session, folded);
    }
  }
}
