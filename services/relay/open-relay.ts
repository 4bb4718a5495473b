// What the relay stands on, opened from what it may hold.
import { join } from "node:path";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { parseEgressAddress } from "#schemas/network/egress-pipe.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { type NatsAccess, openNats } from "#shared/nats/access.ts";
import { openReportSender } from "#shared/nats/work-queue.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import type { EgressService } from "./egress/egress-pipes.ts";
import { type Relay, startRelay } from "./relay.ts";

export type RelayParts = Readonly<{
  config: Pick<PistisConfig, "relay">;
  nats: NatsAccess;
  key: string;
  /** Holds its state file. */
  folder: string;
  socketFolder?: string | undefined;
  /** The way out of sandboxes; without it there is none. */
  egress?: { address: string; key: string } | undefined;
  log: Log;
}>;

/** Closed with `resources`. */
export async function openRelay(parts: RelayParts, resources: Resources): Promise<Pick<Relay, "url" | "connect">> {
  const { config, key, folder, socketFolder, log } = parts;
  const egress = parts.egress === undefined ? undefined : egressService(parts.egress);
  const reports = openReportSender({ nats: await openNats(parts.nats, "relay", resources), reporter: "relay" });
  const relay = await startRelay({
    host: config.relay.host,
    port: config.relay.port,
    ...(socketFolder === undefined ? {} : { socketFolder }),
    ...(egress === undefined ? {} : { egress }),
    adminKey: key,
    stateFile: join(folder, "state.json"),
    reportJoined: (report) => reports.send(`joined-${report.sandboxId}-${report.bootId}`, report),
    log,
  });
  return resources.add("relay", relay, ({ close }) => close());
}

function egressService({ address, key }: { address: string; key: string }): EgressService {
  const parsed = parseEgressAddress(address);
  if (parsed === undefined) throw new Fatal("egress_address", `${address} is neither unix:/path nor tcp://host:port`);
  return { address: parsed, key };
}
