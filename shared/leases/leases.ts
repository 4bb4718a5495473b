// Who works on a session. A lease says who is alive; whether its holder may still write is decided by the
// ledger's expected version alone, and by the epoch at pistisd.

export interface Lease {
  readonly session: string;
  /** Aborts when the lease could not be renewed in time: stop sending at once. */
  readonly lost: AbortSignal;
  release(): Promise<void>;
}

export interface Leases {
  /** Resolves with undefined when someone else holds it. It is renewed until it is released or lost. */
  acquire(session: string): Promise<Lease | undefined>;
}
