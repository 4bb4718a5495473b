// Everything that a client of the gateway could make large, and how large it gets.

export type GatewayLimits = Readonly<{
  /** Open Server-Sent-Event streams. */
  streamsMax: number;
  /** What may wait for one stream's client before it is cut off. */
  mailboxMessagesMax: number;
  mailboxBytesMax: number;
  /** A client whose socket takes nothing for this long is cut off. */
  stallMs: number;
  heartbeatMs: number;
  /** Messages that are read at a time while a client catches up. */
  catchUpPage: number;
  /** Files and outputs that are on their way out of sandboxes. */
  transfersMax: number;
  transferMs: number;
  /** How long a sandbox may take to say that it is there. */
  sandboxReadyMs: number;
  /** How long requests in hand may take once the gateway is asked to stop. */
  closeMs: number;
}>;

export const defaultLimits: GatewayLimits = {
  streamsMax: 200,
  mailboxMessagesMax: 1_000,
  mailboxBytesMax: 8 * 1024 * 1024,
  stallMs: 60_000,
  heartbeatMs: 15_000,
  catchUpPage: 200,
  transfersMax: 16,
  transferMs: 300_000,
  sandboxReadyMs: 5_000,
  closeMs: 3_000,
};

/** Somebody waits for the answer to a request: an append that NATS does not answer is given up after this. */
export const LEDGER_PATIENCE_MS = 5_000;
