// A ledger message as the API shows it.
import { type LedgerMessageView, SSE_LEDGER, SSE_LIVE } from "#schemas/api/stream.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

export function viewOf({ bytes: _bytes, events, ...message }: LedgerMessage): LedgerMessageView {
  return { ...message, events: [...events] };
}

const frames = new WeakMap<LedgerMessage, string>();

/** The message as a Server-Sent Event. Made once, however many clients get it. */
export function ledgerFrame(message: LedgerMessage): string {
  const made = frames.get(message);
  if (made !== undefined) return made;
  const frame = `event: ${SSE_LEDGER}\nid: ${message.sequence}\ndata: ${JSON.stringify(viewOf(message))}\n\n`;
  frames.set(message, frame);
  return frame;
}

export function liveFrame(session: string, message: LiveMessage): string {
  return `event: ${SSE_LIVE}\ndata: ${JSON.stringify({ session, message })}\n\n`;
}
