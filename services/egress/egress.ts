// The way out of a sandbox: a forward proxy that the relay pipes the sandbox's connections to.
import { networkInterfaces } from "node:os";
import type { EgressAddress } from "#schemas/network/egress-pipe.ts";
import type { AskNetwork } from "#shared/nats/network-questions.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService, Start } from "#shared/service/service.ts";
import { openPublicAddresses } from "./addresses/public-addresses.ts";
import { openResolve } from "./addresses/resolve.ts";
import { type EgressReport, openJournal } from "./journal/journal.ts";
import { type EgressLimits, egressLimits } from "./limits.ts";
import { openPipe } from "./pipe/pipe.ts";
import { rememberNetworks } from "./policy/networks.ts";
import { openProxy } from "./proxy/proxy.ts";

export type EgressDependencies = Readonly<{
  address: EgressAddress;
  /** `PISTIS_EGRESS_KEY` */
  key: string;
  /** What a sandbox may reach, from the ledger. */
  askNetwork: AskNetwork;
  /** Resolves when the report is stored. */
  report: (id: string, report: EgressReport) => Promise<void>;
  /** `egress.nameServers`; this machine's own when empty. */
  nameServers?: readonly string[];
  /** `egress.testAddresses` */
  testAddresses?: readonly string[];
  limits?: Partial<EgressLimits>;
}>;

export const startEgress: Start<EgressDependencies> = async (dependencies): Promise<RunningService> => {
  const { address, key, log } = dependencies;
  const limits: EgressLimits = { ...egressLimits, ...dependencies.limits };
  const resources = new Resources();
  const now = () => performance.now();
  const { greetingMs, connectionsMax, eventsPerMinuteMax, reportMs, resolveMs } = limits;
  const journal = openJournal({ send: dependencies.report, eventsPerMinuteMax, reportMs, now, log });
  resources.add("journal", journal, ({ close }) => close());
  const { onConnection } = openProxy({
    networkOf: rememberNetworks(dependencies.askNetwork, now),
    resolve: openResolve({ nameServers: dependencies.nameServers ?? [], timeoutMs: resolveMs }),
    addresses: openPublicAddresses({ except: dependencies.testAddresses ?? [], own: ownAddresses }),
    journal,
    limits,
    log,
  });
  const pipe = await openPipe({ address, key, greetingMs, connectionsMax, onConnection, log });
  resources.add("pipe", pipe, ({ close }) => close());
  log.info({ address }, "The egress service listens");
  return { name: "egress", close: () => resources.close() };
};

/** What listens here listens on these too. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
}
