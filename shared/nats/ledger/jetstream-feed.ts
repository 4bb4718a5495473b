import { Events, type NatsConnection } from "nats";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { LedgerFeed } from "#shared/ledger/ledger.ts";
import { RecentMessages } from "#shared/ledger/recent.ts";
import type { Log } from "#shared/service/log.ts";
import { follow } from "./follow.ts";
import type { Pull } from "./pull.ts";
import { react } from "./react.ts";

export type FeedOptions = Readonly<{
  nats: NatsConnection;
  shards: number;
  blobs: Blobs;
  /** Shared by all who read the ledger in this process. */
  recent?: RecentMessages | undefined;
  log: Log;
}>;

export type FeedContext = FeedOptions &
  Readonly<{
    recent: RecentMessages;
    /** Tells the pull when the connection was lost, until it is untracked. */
    track: (pull: Pull) => Pull;
    /** False when it was untracked before. */
    untrack: (pull: Pull) => boolean;
  }>;

/**
 * The feed over JetStream. `react` needs the durable consumers that set-up makes (consumer.ts), called
 * `<consumer>-<shard>`. It ends with the connection.
 */
export function openLedgerFeed(options: FeedOptions): LedgerFeed {
  const pulls = new Set<Pull>();
  const context: FeedContext = {
    ...options,
    recent: options.recent ?? new RecentMessages(),
    track: (pull) => {
      pulls.add(pull);
      return pull;
    },
    untrack: (pull) => pulls.delete(pull),
  };
  watchConnection(context, pulls).catch((error: unknown) =>
    options.log.error({ error }, "The connection is unwatched"),
  );
  return {
    follow: (request) => follow(context, request),
    react: async (request) => react(context, request),
  };
}

/** What was on its way when the connection broke is lost, and so is what was asked for. */
async function watchConnection({ nats, recent }: FeedContext, pulls: ReadonlySet<Pull>): Promise<void> {
  for await (const { type } of nats.status()) {
    if (type !== Events.Reconnect) continue;
    // It may be another server, or one that lost what it had not synced.
    recent.forget();
    for (const pull of pulls) pull.reconnected();
  }
  for (const pull of pulls) pull.reconnected();
}
