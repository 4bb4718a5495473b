// One follower of the whole ledger per gateway, fanned out to everybody who streams. It starts at a sequence that
// is surely in the past, so each message either is in the ledger when a client subscribes or comes through here.
import { failureOf } from "#shared/errors/errors.ts";
import { waited } from "#shared/ledger/delivery.ts";
import type { LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { Log } from "#shared/service/log.ts";

const FOLLOW_AGAIN_MS = 1_000;

export type Listener = (message: LedgerMessage) => void;

export type Hub = Readonly<{
  /** Sequence of the last message that was fanned out. */
  position: () => number;
  /** "*" is every session. The listener must not throw and not wait. Returns how to unsubscribe. */
  subscribe: (session: string, listener: Listener) => () => void;
  close: () => Promise<void>;
}>;

type State = { position: number; listeners: Map<string, Set<Listener>> };

export function openHub(options: { feed: LedgerFeed; after: number; onMessage: Listener; log: Log }): Hub {
  const state: State = { position: options.after, listeners: new Map() };
  const stop = new AbortController();
  subscribe(state, "*", options.onMessage);
  const following = followForEver(state, options.feed, stop.signal, options.log);
  return {
    position: () => state.position,
    subscribe: (session, listener) => subscribe(state, session, listener),
    close: async () => {
      stop.abort();
      await following;
    },
  };
}

async function followForEver(state: State, feed: LedgerFeed, signal: AbortSignal, log: Log): Promise<void> {
  while (!signal.aborted) {
    try {
      for await (const message of feed.follow({ after: state.position, signal })) fanOut(state, message);
    } catch (error) {
      log.warn(
        { position: state.position, failure: failureOf(error) },
        "Following the ledger failed and is tried again",
      );
    }
    await waited(FOLLOW_AGAIN_MS, signal);
  }
}

function fanOut(state: State, message: LedgerMessage): void {
  state.position = message.sequence;
  for (const listener of state.listeners.get("*") ?? []) listener(message);
  for (const listener of state.listeners.get(message.session) ?? []) listener(message);
}

function subscribe({ listeners }: State, session: string, listener: Listener): () => void {
  const those = listeners.get(session) ?? new Set();
  listeners.set(session, those.add(listener));
  return () => {
    those.delete(listener);
    if (those.size === 0 && listeners.get(session) === those) listeners.delete(session);
  };
}
