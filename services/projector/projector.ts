// Copies every ledger message into PostgreSQL and folds it into the read models, shard by shard, in order.
import type { Database } from "#shared/database/database.ts";
import type { LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { Log } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { applyBatch, type Projection } from "./apply.ts";

export const PROJECTOR_CONSUMER = "projector";

/** A turn appends a message every few milliseconds; a transaction for each would cost more than the turn itself. */
const GATHER_MS = 20;

export type ProjectorDependencies = Readonly<{
  feed: LedgerFeed;
  /** Migrated. */
  database: Database;
  shards: number;
}>;

/** Resolves when it takes batches. `close` finishes the batch in hand; the database stays open. */
export async function startProjector(dependencies: ProjectorDependencies & { log: Log }): Promise<RunningService> {
  const { feed, database, shards, log } = dependencies;
  const projection = { database, shards, cache: new Map() };
  const running = await feed.react({
    consumer: PROJECTOR_CONSUMER,
    handle: (messages) => handle(projection, log, messages),
    gatherMs: GATHER_MS,
  });
  return { name: "projector", close: () => running.close() };
}

async function handle(projection: Projection, log: Log, messages: readonly LedgerMessage[]): Promise<void> {
  const gaps = await applyBatch(projection, messages);
  // The feed is in order, so a gap is a message that was parked or lost. Waiting would hold up the whole shard.
  for (const gap of gaps) log.error(gap, "A ledger message is missing before this one; run `pistis ledger verify`");
}
