// A nats-server whose store can be taken back to an older copy, and a database that the projector fills from it.
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { startProjector } from "#services/projector/projector.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { type NatsServer, startNatsServer } from "#shared/embedded/nats-server.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import type { Mirror } from "#shared/ledger/mirror.ts";
import { connectNats, type NatsConnection } from "#shared/nats/connection.ts";
import { type NatsUser, newNatsKeys } from "#shared/nats/keys.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { scanLedger, WHOLE_LEDGER } from "#shared/nats/ledger/scan.ts";
import { lastSequence } from "#shared/nats/ledger/standing.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { testDatabase } from "#shared/testing/postgres.ts";

const SHARDS = 2;

export type TwoCopies = Readonly<{
  shards: number;
  database: Database;
  mirror: Mirror;
  blobs: Blobs;
  connect: (user: NatsUser) => Promise<NatsConnection>;
  /** A connection that stays open while the server is stopped, and finds it again. */
  connectForGood: (user: NatsUser) => Promise<NatsConnection>;
  /** For the writer gateway. */
  ledger: () => Promise<Ledger>;
  /** Every message as the stream holds it. */
  stored: () => Promise<object[]>;
  /** Runs the projector until the mirror has come to the ledger's end. */
  project: () => Promise<void>;
  /** Stops the server, does this to its store, and starts it again. */
  whileStopped: (change: (store: string) => Promise<void>) => Promise<void>;
  /** Keeps the store as it is now, under this name. */
  keep: (name: string) => Promise<void>;
  /** Puts back the store of that name: what was written since is lost. The server stays away until `meanwhile` is over. */
  rollBack: (name: string, meanwhile?: Promise<void>) => Promise<void>;
  close: () => Promise<void>;
}>;

export async function openTwoCopies(): Promise<TwoCopies> {
  const resources = new Resources();
  const stateDir = resources.add("folder", await mkdtemp(join(tmpdir(), "pistis-copies-")), (folder) =>
    rm(folder, { recursive: true, force: true }),
  );
  const keys = newNatsKeys();
  const start = (port?: number) =>
    startNatsServer({ stateDir, keys, shards: SHARDS, log: silentLog, ...(port === undefined ? {} : { port }) });
  let server: NatsServer = await start();
  resources.add("nats-server", undefined, () => server.close());
  const open = new Set<NatsConnection>();
  const dial = (user: NatsUser) => connectNats({ url: server.url, user, seed: keys[user].seed, name: `test ${user}` });
  const connect = async (user: NatsUser) => {
    const connection = await dial(user);
    open.add(connection);
    return connection;
  };
  const connectForGood = async (user: NatsUser) =>
    resources.add(`connection of ${user}`, await dial(user), (connection) => connection.close());
  const disconnect = async () => {
    await Promise.all([...open].map((connection) => connection.close()));
    open.clear();
  };
  resources.add("connections", undefined, disconnect);
  const prepare = async () =>
    prepareNats({ core: await connect("setup"), edge: await connect("edge-setup"), shards: SHARDS });
  await prepare();
  const { url, close: dropDatabase } = await testDatabase();
  resources.add("database", undefined, dropDatabase);
  const database = resources.add("database pool", await openDatabase(url), (opened) => opened.close());
  await migrate(database);
  const store = join(stateDir, "jetstream");
  const whileStopped: TwoCopies["whileStopped"] = async (change) => {
    await disconnect();
    await server.close();
    await change(store);
    server = await start(Number(new URL(server.url).port));
    await prepare();
  };
  const aside = (name: string) => join(stateDir, `kept-${name}`);
  const blobs = memoryBlobs();
  return {
    shards: SHARDS,
    database,
    mirror: mirrorReader(database),
    blobs,
    connect,
    connectForGood,
    ledger: async () => openLedger({ nats: await connect("gateway"), writer: "gateway", shards: SHARDS, blobs }),
    stored: async () => storedIn(await connect("setup")),
    project: async () => project(await connect("projector"), database, blobs),
    whileStopped,
    keep: (name) => whileStopped((folder) => cp(folder, aside(name), { recursive: true })),
    rollBack: (name, meanwhile) =>
      whileStopped(async (folder) => {
        await meanwhile;
        await rm(folder, { recursive: true });
        await cp(aside(name), folder, { recursive: true });
      }),
    close: () => resources.close(),
  };
}

async function storedIn(nats: NatsConnection): Promise<object[]> {
  const found: object[] = [];
  const manager = await nats.jetstreamManager();
  for await (const { sequence, bytes, ...about } of scanLedger(nats, { after: 0, subject: WHOLE_LEDGER })) {
    const { header } = await manager.streams.getMessage(LEDGER_STREAM, { seq: sequence });
    const { subject, messageId } = about;
    const text = Buffer.from(bytes).toString();
    found.push({ sequence, subject, messageId, types: header.get("Pistis-Types"), text });
  }
  return found;
}

async function project(nats: NatsConnection, database: Database, blobs: Blobs): Promise<void> {
  const feed = openLedgerFeed({ nats, shards: SHARDS, blobs, log: silentLog });
  const projector = await startProjector({ feed, database, shards: SHARDS, log: silentLog });
  const end = await lastSequence(nats);
  const mirror = mirrorReader(database);
  while ((await mirror.countAfter(0)) < end) await new Promise(setImmediate);
  await projector.close();
}
