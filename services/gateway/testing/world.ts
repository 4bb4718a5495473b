// A gateway on a real PostgreSQL with a ledger in memory, and hands for the other services' events.
import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { SESSIONS_PROJECTION } from "#shared/database/applied.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { writeBatch } from "#shared/database/write-batch.ts";
import type { Ledger, LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import type { LiveSubscriber } from "#shared/live/live.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import { Resources } from "#shared/service/resources.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { startGateway } from "../gateway.ts";
import type { Checks } from "../http/handlers.ts";
import type { GatewayLimits } from "../limits.ts";

export const TOKEN = "test-admin-token";

export type Gateway = Readonly<{
  url: string;
  call: (method: string, path: string, body?: unknown) => Promise<Answer>;
  /** What it wrote into its log. */
  logged: readonly string[];
  close: () => Promise<void>;
}>;
export type Answer = Readonly<{ status: number; json: unknown; headers: Headers }>;

export type World = Readonly<{
  ledger: ReturnType<typeof memoryLedger>;
  database: Database;
  live: ReturnType<typeof memoryLive>;
  gateway: (options?: GatewayOptions) => Promise<Gateway>;
  /** Another service writes into a session. */
  write: (session: string, writer: Writer, ...events: PistisEvent[]) => Promise<LedgerMessage>;
  /** Brings the mirror and the read model of these sessions up to the ledger, as the projector does. */
  project: (...sessions: string[]) => Promise<void>;
  close: () => Promise<void>;
}>;

export type GatewayOptions = Readonly<{
  port?: number;
  limits?: Partial<GatewayLimits>;
  openLink?: OpenLink;
  ledger?: Ledger;
  feed?: LedgerFeed;
  checks?: Checks;
}>;

export async function openWorld(): Promise<World> {
  const resources = new Resources();
  const server = resources.add("server", await testDatabase(), ({ close }) => close());
  const database = resources.add("database", await openDatabase(server.url), ({ close }) => close());
  await migrate(database);
  const ledger = memoryLedger();
  const live = memoryLive();
  return {
    ledger,
    database,
    live,
    gateway: async (options = {}) => {
      const running = await start({ ledger, database, live }, options);
      return resources.add("gateway", running, ({ close }) => close());
    },
    write: async (session, writer, ...events) => {
      const { version } = await ledger.open(writer).read(session);
      return ledger.open(writer).append(session, version, events, { correlationId: session, causationId: null });
    },
    project: (...sessions) => project(ledger, database, sessions),
    close: () => resources.close(),
  };
}

async function start(
  { ledger, database, live }: Pick<World, "ledger" | "database" | "live">,
  {
    port = 0,
    limits = {},
    openLink = noLink,
    ledger: own,
    feed = ledger.feed,
    checks = { nats: async () => undefined },
  }: GatewayOptions,
): Promise<Gateway> {
  const logged: string[] = [];
  const note = (_fields: object, text: string) => void logged.push(text);
  const { url, close } = await startGateway({
    host: "127.0.0.1",
    port,
    adminToken: TOKEN,
    ledger: own ?? ledger.open("gateway"),
    feed,
    live,
    database,
    blobs: memoryBlobs(),
    openLink,
    choices: { models: ["script", "big"], defaultModel: "script", providers: ["local"], defaultProvider: "local" },
    limits,
    checks,
    log: { debug: note, info: note, warn: note, error: note },
  });
  return { url, close, logged, call: (method, path, body) => call(url, method, path, body) };
}

async function call(url: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const response = await fetch(`${url}${path}`, { method, headers, ...content });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text), headers: response.headers };
}

async function project(ledger: World["ledger"], database: Database, sessions: readonly string[]): Promise<void> {
  for (const session of sessions) {
    const { messages, version } = await ledger.open("gateway").read(session);
    const overview = messages.reduce(evolveOverview, undefined);
    const overviews = overview === undefined ? [] : [{ session: overview, version }];
    const marks = [{ projection: SESSIONS_PROJECTION, shard: 0, sequence: version.sequence }];
    await writeBatch(database.pool, { messages, overviews, marks });
  }
}

/** Live traffic within the process. */
export function memoryLive(): LiveSubscriber & { publish: (session: string, message: LiveMessage) => number } {
  const listeners = new Map<symbol, { session: string; onMessage: (session: string, message: LiveMessage) => void }>();
  return {
    subscribe(session, onMessage) {
      const key = Symbol(session);
      listeners.set(key, { session, onMessage });
      return () => listeners.delete(key);
    },
    publish(session, message) {
      const those = [...listeners.values()].filter((one) => one.session === session || one.session === "*");
      for (const { onMessage } of those) onMessage(session, message);
      return those.length;
    },
  };
}

const noLink: OpenLink = ({ sandboxId }) => {
  throw new Error(`This test opens no link to ${sandboxId}`);
};
