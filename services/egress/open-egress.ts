// What the egress service stands on, opened from what it may hold.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { parseEgressAddress } from "#schemas/network/egress-pipe.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { type NatsAccess, openNats } from "#shared/nats/access.ts";
import { openNetworkAsker } from "#shared/nats/network-questions.ts";
import { openReportSender } from "#shared/nats/work-queue.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { startEgress } from "./egress.ts";

export type EgressParts = Readonly<{
  config: Pick<PistisConfig, "egress">;
  nats: NatsAccess;
  /** Where the relay reaches it: `unix:/path` or `tcp://host:port`. */
  address: string;
  key: string;
  log: Log;
}>;

/** Closed with `resources`. */
export async function openEgress(parts: EgressParts, resources: Resources): Promise<void> {
  const { config, key, log } = parts;
  const address = parseEgressAddress(parts.address);
  if (address === undefined) {
    throw new Fatal("egress_address", `${parts.address} is neither unix:/path nor tcp://host:port`);
  }
  const nats = await openNats(parts.nats, "egress", resources);
  const reports = openReportSender({ nats, reporter: "egress" });
  const { nameServers, testAddresses } = config.egress;
  const egress = await startEgress({
    ...{ address, key, nameServers, testAddresses },
    askNetwork: openNetworkAsker({ nats }),
    report: (id, report) => reports.send(id, report),
    log,
  });
  resources.add("egress", egress, ({ close }) => close());
}
