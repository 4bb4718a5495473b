// Append and read one session at a time. The JetStream and in-memory ledgers both satisfy
// ledger.contract.ts, which is the real definition of these types.
import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";

/**
 * Where a session stands. Opaque: only ever passed back. `sequence` is the *stream's* sequence of the
 * session's last message (0: none), `hash` the SHA-256 of that message's bytes ("" for none).
 */
export type Version = Readonly<{ sequence: number; hash: string }>;

export const NEW_SESSION: Version = Object.freeze({ sequence: 0, hash: "" });

export type LedgerMessage = Readonly<{
  id: string;
  session: string;
  at: string;
  writer: Writer;
  correlationId: string;
  causationId: string | null;
  /** The stream's sequence. Within a session it rises, with gaps. */
  sequence: number;
  hash: string;
  prev: string;
  events: readonly PistisEvent[];
  /** The message exactly as it is stored: what the hash is of, and what the mirror keeps. */
  bytes: Uint8Array;
}>;

export type Cause = Readonly<{ correlationId: string; causationId: string | null; traceparent?: string }>;

export interface LedgerReader {
  /** All messages of the session after `after` (all of them without it), in order, with no gap. */
  read(session: string, after?: Version): Promise<{ messages: LedgerMessage[]; version: Version }>;
}

export interface Ledger extends LedgerReader {
  /**
   * Writes one message with all events, or nothing. Throws VersionConflict unless the session is at `expected`.
   * Throws a Fatal `foreign_event` when an event belongs to another writer than this ledger was opened for.
   * Resolves when the server has stored it; a retry after a lost acknowledgement is not a conflict.
   */
  append(session: string, expected: Version, events: readonly PistisEvent[], cause: Cause): Promise<LedgerMessage>;
}

export class VersionConflict extends Error {
  override readonly name = "VersionConflict";
}

export interface LedgerFeed {
  /**
   * Every message of every session after the stream sequence `after` ("now": only what comes), in order,
   * without a gap, for ever, until `signal` aborts. `session` narrows it to one.
   */
  follow(options: { after: number | "now"; session?: string; signal: AbortSignal }): AsyncIterable<LedgerMessage>;

  /**
   * This service's durable consumer, one per shard. The handler gets batches in order, one batch of a shard at a time
   * over all replicas. It returns and they are done; it throws a Retryable (or VersionConflict) and they come again,
   * later each time; it throws anything else and they come again one by one, and the one that fails alone is parked:
   * recorded for a person with the reason, while those after it go on. At least once: the same may come twice.
   */
  react(options: {
    consumer: string;
    handle: (messages: readonly LedgerMessage[]) => Promise<void>;
    /** How long a batch waits for messages that may follow, for a handler that costs as much for one as for many. */
    gatherMs?: number;
  }): Promise<{ close: () => Promise<void> }>;
}
