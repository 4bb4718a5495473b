import type { Log } from "#shared/service/log.ts";
import type { PublicAddresses } from "../addresses/public-addresses.ts";
import type { Resolve } from "../addresses/resolve.ts";
import type { Journal } from "../journal/journal.ts";
import type { EgressLimits } from "../limits.ts";
import type { NetworkOf } from "../policy/networks.ts";

/** What answering a request takes. */
export type ProxyParts = Readonly<{
  networkOf: NetworkOf;
  resolve: Resolve;
  addresses: PublicAddresses;
  journal: Journal;
  limits: EgressLimits;
  log: Log;
}>;
