import type { StoredMessage } from "./codec.ts";

/** The copy of the ledger in PostgreSQL, which may lag behind. */
export type MirrorReader = Readonly<{
  /** The session's messages with a sequence above `afterSequence`, in order, as far as the mirror has them. */
  read: (session: string, afterSequence: number) => Promise<StoredMessage[]>;
}>;

export type MirroredMessage = StoredMessage & Readonly<{ session: string }>;

/** The mirror as a whole, in the order of the stream: the ledger's second copy. */
export type MirrorScan = Readonly<{
  /** The last message at or before `sequence`; the last of all without it. */
  lastUpTo: (sequence?: number) => Promise<MirroredMessage | undefined>;
  /** At most `limit` messages after `afterSequence`. */
  page: (afterSequence: number, limit: number) => Promise<MirroredMessage[]>;
  /** How many messages stand after this sequence. */
  countAfter: (sequence: number) => Promise<number>;
  /** Up to which sequence each shard has been copied. A message below it that is not there was parked, or is lost. */
  marks: () => Promise<ReadonlyMap<number, number>>;
}>;

export type Mirror = MirrorReader & MirrorScan;
