// The way of one service to NATS, and to the ledger over it.
import type { Writer } from "#schemas/ledger/event.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { Fatal } from "#shared/errors/errors.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { Mirror } from "#shared/ledger/mirror.ts";
import { RecentMessages } from "#shared/ledger/recent.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { connectNats, type NatsConnection } from "./connection.ts";
import type { NatsUser } from "./keys.ts";
import { openLedgerFeed } from "./ledger/jetstream-feed.ts";
import { openLedger } from "./ledger/jetstream-ledger.ts";
import { openLossGuard } from "./ledger/loss-guard.ts";
import { requireWhole, standingOf } from "./ledger/standing.ts";
import { requireLedger } from "./setup.ts";

export type NatsAccess = Readonly<{ url: string; seed: string }>;

/**
 * Connects as `user`; closed with `resources`, which break when the connection ends before. `purpose` tells apart the
 * connections of one user.
 */
export async function openNats(
  access: NatsAccess,
  user: NatsUser,
  resources: Resources,
  purpose?: string,
): Promise<NatsConnection> {
  const name = purpose === undefined ? user : `${user}-${purpose}`;
  const connection = await connectNats({ ...access, user, name: `pistis ${name}` });
  let isAsked = false;
  void connection.closed().then((cause) => {
    if (!isAsked) resources.break(endedForGood(name, cause));
  });
  return resources.add(`NATS connection of ${name}`, connection, (opened) => {
    isAsked = true;
    return opened.close();
  });
}

/** The client gave up, which it is told never to do: a process without its connection must not look healthy. */
function endedForGood(name: string, cause: unknown): Fatal {
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  const next = "Start it again, and see nats-server's log for why it refuses this user; `pistis setup` renews its keys";
  return new Fatal("nats_connection_ended", `The NATS connection of ${name} has ended for good${why}`, { cause, next });
}

/**
 * The ledger for one writer and the feed that it reacts to and follows, on one connection. Throws Refusals
 * `ledger_missing` and `ledger_shards_fixed` where set-up was not here, or for another number of shards;
 * `ledger_behind_mirror` and `ledger_diverged` when the ledger has lost what PostgreSQL still has. When it loses that
 * later, appends throw Retryables of these codes.
 */
export async function openLedgerAndFeed(options: {
  nats: NatsConnection;
  writer: Writer;
  shards: number;
  blobs: Blobs;
  mirror: Mirror;
  recent?: RecentMessages | undefined;
  /** How long an append goes on without an answer of the server; 20 s when absent. */
  patienceMs?: number;
  log: Log;
}): Promise<{ ledger: Ledger; feed: LedgerFeed }> {
  await requireLedger(options.nats, options.shards);
  await requireWholeLedger(options);
  const shared = { ...options, recent: options.recent ?? new RecentMessages() };
  return { ledger: openLedger({ ...shared, lossGuard: openLossGuard(options) }), feed: openLedgerFeed(shared) };
}

/** Whoever appends asks this first: what is written after a loss takes the place of what could be put back. */
export async function requireWholeLedger(options: { nats: NatsConnection; mirror: Mirror; log: Log }): Promise<void> {
  const standing = await standingOf(options.nats, options.mirror);
  if (standing.status !== "whole")
    options.log.error({ ...standing }, "THE LEDGER HAS LOST MESSAGES: nothing is started");
  requireWhole(standing);
}
