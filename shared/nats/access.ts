// The way of one service to NATS, and to the ledger over it.
import type { Writer } from "#schemas/ledger/event.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { connectNats, type NatsConnection } from "./connection.ts";
import type { NatsUser } from "./keys.ts";
import { openLedgerFeed } from "./ledger/jetstream-feed.ts";
import { openLedger } from "./ledger/jetstream-ledger.ts";
import { requireLedger } from "./setup.ts";

export type NatsAccess = Readonly<{ url: string; seed: string }>;

/** Connects as `user`; closed with `resources`. `purpose` tells apart the connections of one user. */
export async function openNats(
  access: NatsAccess,
  user: NatsUser,
  resources: Resources,
  purpose?: string,
): Promise<NatsConnection> {
  const name = purpose === undefined ? user : `${user}-${purpose}`;
  const connection = await connectNats({ ...access, user, name: `pistis ${name}` });
  return resources.add(`NATS connection of ${name}`, connection, (opened) => opened.close());
}

/**
 * The ledger for one writer and the feed that it reacts to and follows, on one connection. Throws Refusals
 * `ledger_missing` and `ledger_shards_fixed` where set-up was not here, or for another number of shards.
 */
export async function openLedgerAndFeed(options: {
  nats: NatsConnection;
  writer: Writer;
  shards: number;
  blobs: Blobs;
  mirror: MirrorReader;
  log: Log;
}): Promise<{ ledger: Ledger; feed: LedgerFeed }> {
  await requireLedger(options.nats, options.shards);
  return { ledger: openLedger(options), feed: openLedgerFeed(options) };
}
