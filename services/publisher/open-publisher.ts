// What the publisher stands on, opened from what it may hold.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import type { DatabasePool } from "#shared/database/pool.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { type NatsAccess, openLedgerAndFeed, openNats } from "#shared/nats/access.ts";
import { openLivePublisher } from "#shared/nats/live.ts";
import { linkAccess, openRelayLinks, type RelayAccess } from "#shared/sandbox-link/relay-link.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { startPublisher } from "./publisher.ts";

export type PublisherParts = Readonly<{
  config: Pick<PistisConfig, "ledger" | "git" | "recovery">;
  nats: NatsAccess;
  database: Pick<DatabasePool, "pool">;
  blobs: Blobs;
  /** Shared by the services of one process. */
  recent?: RecentMessages | undefined;
  relay: RelayAccess;
  /** Holds the mirrors of repositories. */
  folder: string;
  log: Log;
}>;

/** Closed with `resources`. Live traffic has a connection of its own: it must not hold up the ledger's. */
export async function openPublisher(parts: PublisherParts, resources: Resources): Promise<void> {
  const { config, database, blobs, recent, relay, folder, log } = parts;
  const [nats, liveNats] = await Promise.all([
    openNats(parts.nats, "publisher", resources),
    openNats(parts.nats, "publisher", resources, "live"),
  ]);
  const { shards } = config.ledger;
  const publisher = await startPublisher({
    ...(await openLedgerAndFeed({
      nats,
      writer: "publisher",
      shards,
      blobs,
      mirror: mirrorReader(database),
      recent,
      log,
    })),
    openLink: openRelayLinks({ ...linkAccess(relay), reattachMs: config.recovery.reattachMs, log }),
    live: resources.add("live publisher", openLivePublisher({ nats: liveNats }), ({ close }) => close()),
    config: config.git,
    stateDir: folder,
    log,
  });
  resources.add("publisher", publisher, ({ close }) => close());
}
