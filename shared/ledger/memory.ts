// A whole ledger in memory, for tests of what is built on it: several writers, followers and durable consumers
// that outlive their `close`. It stores the same bytes as the real one.
import type { Writer } from "#schemas/ledger/event.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { type Log, silentLog } from "#shared/service/log.ts";
import { type Append, decodeMessage, encodeMessage } from "./codec.ts";
import { type Delivery, deliver, type Parked, waited } from "./delivery.ts";
import {
  type Ledger,
  type LedgerFeed,
  type LedgerMessage,
  NEW_SESSION,
  type Version,
  VersionConflict,
} from "./ledger.ts";

const BATCH_MAX = 100;

type Reaction = Parameters<LedgerFeed["react"]>[0];

export type MemoryLedger = Readonly<{
  open: (writer: Writer) => Ledger;
  feed: LedgerFeed;
  /** What consumers gave up, in the order in which they did. */
  parked: readonly Parked[];
}>;

type Consumer = { done: number; busy: boolean };
type State = {
  messages: LedgerMessage[];
  last: Map<string, LedgerMessage>;
  blobs: ReturnType<typeof memoryBlobs>;
  consumers: Map<string, Consumer>;
  parked: Parked[];
  waiting: Set<() => void>;
};

export function memoryLedger(log: Log = silentLog): MemoryLedger {
  const state: State = {
    messages: [],
    last: new Map(),
    blobs: memoryBlobs(),
    consumers: new Map(),
    parked: [],
    waiting: new Set(),
  };
  return {
    open: (writer) => ({
      append: (session, expected, events, cause) => append(state, writer, { session, expected, events, cause }),
      read: async (session, after) => read(state, session, after),
    }),
    feed: {
      follow: ({ after, session, signal }) =>
        follow(state, after === "now" ? state.messages.length : after, session, signal),
      react: async (options) => react(state, log, options),
    },
    parked: state.parked,
  };
}

async function append(state: State, writer: Writer, request: Append): Promise<LedgerMessage> {
  const { bytes } = await encodeMessage(writer, request, state.blobs);
  // Decoded from its bytes, so that a caller's later changes to its events stay out of the ledger.
  const decoded = await decodeMessage({ sequence: 0, bytes }, state.blobs);
  const at = state.last.get(request.session)?.sequence ?? NEW_SESSION.sequence;
  if (at !== request.expected.sequence) {
    throw new VersionConflict(`${request.session} is at ${at}, expected ${request.expected.sequence}`);
  }
  const message = { ...decoded, sequence: state.messages.length + 1 };
  state.messages.push(message);
  state.last.set(message.session, message);
  wake(state);
  return message;
}

function read(state: State, session: string, after: Version = NEW_SESSION) {
  const messages = state.messages
    .slice(after.sequence)
    .filter((message) => message.session === session && message.sequence > after.sequence);
  const last = messages.at(-1);
  return { messages, version: last === undefined ? after : { sequence: last.sequence, hash: last.hash } };
}

async function* follow(state: State, after: number, session: string | undefined, signal: AbortSignal) {
  for (let next = after; !signal.aborted; ) {
    const message = state.messages[next];
    if (message === undefined) {
      await appended(state, signal);
      continue;
    }
    next++;
    if (session === undefined || message.session === session) yield message;
  }
}

/** One replica works at a time; another one waits until it is closed. */
async function react(state: State, log: Log, { consumer, handle, gatherMs = 0 }: Reaction) {
  const known = state.consumers.get(consumer) ?? { done: 0, busy: false };
  state.consumers.set(consumer, known);
  const stop = new AbortController();
  const park = async (parked: Parked) => {
    state.parked.push(parked);
  };
  const working = work(state, known, { consumer, handle, gatherMs, park, log, stopping: stop.signal });
  return {
    close: async () => {
      stop.abort();
      await working;
    },
  };
}

async function work(
  state: State,
  consumer: Consumer,
  { gatherMs, ...delivery }: Delivery & { gatherMs: number },
): Promise<void> {
  while (!delivery.stopping.aborted) {
    if (consumer.busy || consumer.done === state.messages.length) {
      await appended(state, delivery.stopping);
      continue;
    }
    consumer.busy = true;
    try {
      if (gatherMs > 0) await waited(gatherMs, delivery.stopping);
      const batch = state.messages.slice(consumer.done, consumer.done + BATCH_MAX);
      if (await deliver(batch, delivery)) consumer.done += batch.length;
    } finally {
      consumer.busy = false;
      wake(state);
    }
  }
}

function wake(state: State): void {
  for (const resume of [...state.waiting]) resume();
}

/** Resolves at the next change, or when `signal` aborts. */
function appended(state: State, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const resume = () => {
      state.waiting.delete(resume);
      signal.removeEventListener("abort", resume);
      resolve();
    };
    if (signal.aborted) return resume();
    state.waiting.add(resume);
    signal.addEventListener("abort", resume);
  });
}
