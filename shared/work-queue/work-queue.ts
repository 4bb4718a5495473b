// Work that takes time, at least once each, one at a time per worker. EDGE account.

import type { ReportPlace } from "#schemas/ledger/parts.ts";
import type { Report } from "#schemas/provider/task.ts";

/** The reporter is the subject that the server let the report through on, so it cannot be made up. */
export type ReceivedReport = Readonly<{
  reporter: string;
  /** It was tried before or its first delivery was not acknowledged, so it may be older than what was received before it. */
  redelivered: boolean;
  place: ReportPlace;
  report: Report;
}>;

export interface WorkQueueSender<Item> {
  /** Resolves when stored. The same `id` again within two minutes is stored once. */
  send(id: string, item: Item): Promise<void>;
}

export interface WorkQueueReceiver<Item> {
  /**
   * Hands out items until closed; a running one is kept alive. The handler returns: done. It throws a Retryable:
   * again after `retryAfterMs`, a limited number of times; without a limit, and with this item kept in hand, while
   * nothing can be appended to the ledger or sent. It throws anything else: parked with the reason, and logged.
   */
  receive(handle: (item: Item, signal: AbortSignal) => Promise<void>): Promise<{ close: () => Promise<void> }>;
}
