// What waits for one client. It holds so much and no more: a client that does not keep up is cut off and comes
// back with its cursor.
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

export type MailboxLimits = Readonly<{ messagesMax: number; bytesMax: number }>;

export type Mailbox = Readonly<{
  put: (message: LedgerMessage) => void;
  /** Messages as they come, until `signal` aborts. */
  take: () => AsyncGenerator<LedgerMessage, void>;
}>;

type State = { waiting: LedgerMessage[]; bytes: number; wake: () => void };

/** `onOverflow` is called once, with nothing taken in after it. */
export function openMailbox(limits: MailboxLimits, signal: AbortSignal, onOverflow: () => void): Mailbox {
  const state: State = { waiting: [], bytes: 0, wake: nobodyWaits };
  let overflown = false;
  const put = (message: LedgerMessage) => {
    if (overflown) return;
    overflown = state.waiting.length >= limits.messagesMax || state.bytes + message.bytes.length > limits.bytesMax;
    if (overflown) return onOverflow();
    state.waiting.push(message);
    state.bytes += message.bytes.length;
    state.wake();
  };
  return { put, take: () => take(state, signal) };
}

async function* take(state: State, signal: AbortSignal): AsyncGenerator<LedgerMessage, void> {
  while (!signal.aborted) {
    const message = state.waiting.shift();
    if (message === undefined) {
      await arrived(state, signal);
      continue;
    }
    state.bytes -= message.bytes.length;
    yield message;
  }
}

function arrived(state: State, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      state.wake = nobodyWaits;
      signal.removeEventListener("abort", wake);
      resolve();
    };
    state.wake = wake;
    signal.addEventListener("abort", wake);
    if (signal.aborted) wake();
  });
}

function nobodyWaits(): void {
  // Nothing to wake: the reader is busy and will look again.
}
