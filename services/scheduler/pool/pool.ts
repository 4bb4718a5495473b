// The warm pool of one scheduler: what its feed tells and asks of it.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { handOver, type Pool, settleClaim } from "./handover.ts";
import { startKeeper } from "./keeper.ts";

export type WarmPool = Readonly<{
  /** False when the session has to have a sandbox made for it, or needs none. */
  handOver: (needed: LedgerMessage) => Promise<boolean>;
  settleClaim: (claimed: LedgerMessage) => Promise<void>;
  /** Takes in what was appended: it may mean that there is something to do. */
  hear: (message: Pick<LedgerMessage, "session">, event: PistisEvent) => void;
  /** Takes in that somebody reported about this sandbox. */
  hearOf: (sandboxId: string) => void;
  close: () => Promise<void>;
}>;

export function openWarmPool(pool: Pool): WarmPool {
  return {
    handOver: (needed) => handOver(pool, needed),
    settleClaim: (claimed) => settleClaim(pool, claimed),
    ...startKeeper(pool),
  };
}
