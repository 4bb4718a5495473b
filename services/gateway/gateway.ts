// The HTTP API: sessions and messages in, the ledger and files out.
import { readFile } from "node:fs/promises";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { lastApplied, SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import type { Database } from "#shared/database/database.ts";
import type { Ledger, LedgerFeed } from "#shared/ledger/ledger.ts";
import type { LiveSubscriber } from "#shared/live/live.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService } from "#shared/service/service.ts";
import type { Choices } from "./choices.ts";
import { openHub } from "./events/hub.ts";
import { endStreams, type Streams } from "./events/streams.ts";
import { type Api, type Checks, handlersOf } from "./http/handlers.ts";
import { closeServer, listen } from "./http/server.ts";
import { defaultLimits, type GatewayLimits } from "./limits.ts";
import { observe, openSessions } from "./session/sessions.ts";

export type GatewayDependencies = Readonly<{
  /** A loopback address is guarded against DNS rebinding. */
  host: string;
  /** 0: a free port. */
  port: number;
  adminToken: string;
  /** Opened for the writer gateway, with the mirror. */
  ledger: Ledger;
  feed: LedgerFeed;
  live: LiveSubscriber;
  /** Migrated. */
  database: Database;
  /** Where the ledger keeps what is too large for a message. */
  blobs: Blobs;
  openLink: OpenLink;
  choices: Choices;
  /** What /readyz asks, beside the database. */
  checks?: Checks;
  limits?: Partial<GatewayLimits>;
}>;

/** Resolves when it listens. `close` ends the streams, finishes requests in hand, and leaves what it was given open. */
export async function startGateway(
  dependencies: GatewayDependencies & { log: Log },
): Promise<RunningService & { url: string }> {
  const { database, log, host, port, adminToken } = dependencies;
  const limits = { ...defaultLimits, ...dependencies.limits };
  const resources = new Resources();
  const sessions = openSessions(dependencies.ledger, database, log);
  // What was projected surely is in the ledger, so whoever reads the ledger from now on sees it.
  const after = await lastApplied(database, SESSIONS_PROJECTION);
  const onMessage = observe.bind(undefined, sessions);
  const hub = openHub({ feed: dependencies.feed, after, onMessage, log });
  resources.add("ledger follower", hub, () => hub.close());
  const { ledger, blobs, feed, live } = dependencies;
  const streams: Streams = { pages: { ledger, database, blobs }, hub, feed, live, clients: new Set(), limits, log };
  try {
    const api: Api = {
      sessions,
      choices: dependencies.choices,
      streams,
      files: { openLink: dependencies.openLink, limits, transfers: { open: 0 } },
      checks: { database: database.ping, ...dependencies.checks },
      openapi: await readOpenapi(),
    };
    const listening = await listen({ host, port, adminToken, handlers: handlersOf(api), log });
    resources.add("server", listening, () => closeServer(listening, limits.closeMs));
    resources.add("streams", streams, endStreams);
    return { name: "gateway", url: listening.url, close: () => resources.close() };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

async function readOpenapi(): Promise<unknown> {
  const file = new URL("../../schemas/generated/openapi.json", import.meta.url);
  return JSON.parse(await readFile(file, "utf8"));
}
