// What a brain stands on, opened from what it may hold.
import { hostname } from "node:os";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { askDatabase } from "#shared/database/ask.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import type { DatabasePool } from "#shared/database/pool.ts";
import { openSnapshots } from "#shared/database/snapshots.ts";
import { unsettledSessions } from "#shared/database/unsettled.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { type NatsAccess, openLedgerAndFeed, openNats } from "#shared/nats/access.ts";
import { openLeases } from "#shared/nats/leases.ts";
import { openLivePublisher } from "#shared/nats/live.ts";
import { LEASE_TTL_MS_DEFAULT } from "#shared/nats/setup.ts";
import { linkAccess, openRelayLinks, type RelayAccess } from "#shared/sandbox-link/relay-link.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { startBrain } from "./brain.ts";

export type BrainParts = Readonly<{
  config: PistisConfig;
  nats: NatsAccess;
  database: Pick<DatabasePool, "pool">;
  blobs: Blobs;
  /** Shared by the services of one process. */
  recent?: RecentMessages | undefined;
  relay: RelayAccess;
  /** For people; the host's name when absent. */
  name?: string | undefined;
  log: Log;
}>;

/** Closed with `resources`. Live traffic has a connection of its own: it must not hold up the ledger's. */
export async function openBrain(parts: BrainParts, resources: Resources): Promise<void> {
  const { config, database, blobs, recent, relay, log } = parts;
  const [nats, liveNats] = await Promise.all([
    openNats(parts.nats, "brain", resources),
    openNats(parts.nats, "brain", resources, "live"),
  ]);
  const { shards } = config.ledger;
  const brainName = parts.name ?? hostname();
  const brain = await startBrain({
    ...(await openLedgerAndFeed({ nats, writer: "brain", shards, blobs, mirror: mirrorReader(database), recent, log })),
    leases: await openLeases({ nats, holder: brainName, ttlMs: LEASE_TTL_MS_DEFAULT }),
    openLink: openRelayLinks({ ...linkAccess(relay), reattachMs: config.recovery.reattachMs, log }),
    live: resources.add("live publisher", openLivePublisher({ nats: liveNats }), ({ close }) => close()),
    config,
    snapshots: openSnapshots(database),
    unsettled: () => askDatabase(() => unsettledSessions(database)),
    brainName,
    log,
  });
  resources.add("brain", brain, ({ close }) => close());
}
