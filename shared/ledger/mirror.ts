import type { StoredMessage } from "./codec.ts";

/** The copy of the ledger in PostgreSQL, which may lag behind. */
export type MirrorReader = Readonly<{
  /** The session's messages with a sequence above `afterSequence`, in order, as far as the mirror has them. */
  read: (session: string, afterSequence: number) => Promise<StoredMessage[]>;
}>;
