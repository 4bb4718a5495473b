// What the projector stands on, opened from what it may hold.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import type { RecentMessages } from "#shared/ledger/recent.ts";
import { type NatsAccess, openNats } from "#shared/nats/access.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { requireLedger } from "#shared/nats/setup.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { startProjector } from "./projector.ts";

export type ProjectorParts = Readonly<{
  config: Pick<PistisConfig, "ledger">;
  nats: NatsAccess;
  database: Database;
  blobs: Blobs;
  /** Shared by the services of one process. */
  recent?: RecentMessages | undefined;
  log: Log;
}>;

/** Closed with `resources`. */
export async function openProjector(parts: ProjectorParts, resources: Resources): Promise<void> {
  const { database, blobs, recent, log } = parts;
  const { shards } = parts.config.ledger;
  const nats = await openNats(parts.nats, "projector", resources);
  await requireLedger(nats, shards);
  const projector = await startProjector({
    feed: openLedgerFeed({ nats, shards, blobs, recent, log }),
    database,
    shards,
    log,
  });
  resources.add("projector", projector, ({ close }) => close());
}
