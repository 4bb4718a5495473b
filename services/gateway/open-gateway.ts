// What the gateway stands on, opened from what it may hold.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { type NatsAccess, openLedgerAndFeed, openNats } from "#shared/nats/access.ts";
import { openLiveSubscriber } from "#shared/nats/live.ts";
import { linkAccess, openRelayLinks, type RelayAccess } from "#shared/sandbox-link/relay-link.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { choicesOf } from "./choices.ts";
import { startGateway } from "./gateway.ts";
import { LEDGER_PATIENCE_MS } from "./limits.ts";

export type GatewayParts = Readonly<{
  config: PistisConfig;
  adminToken: string;
  nats: NatsAccess;
  database: Database;
  blobs: Blobs;
  /** Shared by the services of one process. */
  recent?: RecentMessages | undefined;
  relay: RelayAccess;
  log: Log;
}>;

/** Closed with `resources`. Live traffic has a connection of its own: it must not hold up the ledger's. */
export async function openGateway(parts: GatewayParts, resources: Resources): Promise<{ url: string }> {
  const { config, adminToken, database, blobs, recent, relay, log } = parts;
  const [nats, liveNats] = await Promise.all([
    openNats(parts.nats, "gateway", resources),
    openNats(parts.nats, "gateway", resources, "live"),
  ]);
  const { shards } = config.ledger;
  const gateway = await startGateway({
    ...(await openLedgerAndFeed({
      nats,
      writer: "gateway",
      shards,
      blobs,
      mirror: mirrorReader(database),
      recent,
      patienceMs: LEDGER_PATIENCE_MS,
      log,
    })),
    host: config.server.host,
    port: config.server.port,
    adminToken,
    live: openLiveSubscriber({ nats: liveNats }),
    database,
    blobs,
    openLink: openRelayLinks({ ...linkAccess(relay), reattachMs: config.recovery.reattachMs, log }),
    choices: choicesOf(config),
    checks: { nats: () => nats.flush() },
    log,
  });
  return resources.add("gateway", gateway, ({ close }) => close());
}
