// NATS and PostgreSQL of an install, for commands that look at them directly: those of a running `pistis dev`, those of
// services that run as processes of their own, or, when nothing runs, the embedded ones, started for the command.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { Blobs } from "#shared/blobs/blobs.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import type { Environment } from "#shared/config/interpolate.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { openMigratedDatabase } from "#shared/database/migrated.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { pathExists } from "#shared/files/path-exists.ts";
import { openNats } from "#shared/nats/access.ts";
import type { NatsConnection } from "#shared/nats/connection.ts";
import type { NatsKeys } from "#shared/nats/keys.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { type Context, folderOf } from "../context.ts";
import { configFileIn } from "../dev/config-file.ts";
import { openInfrastructure } from "../dev/infrastructure.ts";
import { printedSteps } from "../dev/steps.ts";
import { lockState } from "../state/lock.ts";
import { openSecrets, type Secrets } from "../state/secrets.ts";
import { readRunning } from "../state/server-file.ts";
import { type StateFolder, serviceFolders } from "../state/state-folder.ts";

export type Stores = Readonly<{
  /** Of the user `setup`, who may everything in its account. */
  nats: NatsConnection;
  /** Of the user `edge-setup`. */
  edge: NatsConnection;
  database: Database;
  blobs: Blobs;
  shards: number;
}>;

export type StoresOptions = Readonly<{
  state?: string | undefined;
  config?: string | undefined;
  /** For whoever else wants the folder. */
  command: string;
  /** Streams and tables may be missing: they are made. Nothing else may run on the state folder. */
  prepare?: boolean;
}>;

type Addresses = Readonly<{ natsUrl: string; natsKeys: NatsKeys; databaseUrl: string }>;

/** Calls `use` with what it opened and closes it again, whatever comes of it. */
export async function withStores<T>(
  context: Context,
  options: StoresOptions,
  use: (stores: Stores) => Promise<T>,
): Promise<T> {
  const resources = new Resources();
  try {
    return await use(await openStores(context, options, resources));
  } finally {
    await resources.close();
  }
}

async function openStores(context: Context, options: StoresOptions, resources: Resources): Promise<Stores> {
  const folder = folderOf(context, options.state);
  const configFile = await configFileIn(options.config, context.cwd);
  const { ledger } = await readConfigPart(configFile, context.environment, { sections: ["ledger"] });
  const { shards } = ledger;
  if (!(await pathExists(folder.secrets))) {
    const next = "Name its folder with --state or PISTIS_STATE";
    throw new Refusal("no_install", `There is no install in ${folder.path}`, { next });
  }
  const { natsUrl, natsKeys, databaseUrl } = await addresses(context, folder, { ...options, shards }, resources);
  const nats = await openNats({ url: natsUrl, seed: natsKeys.setup.seed }, "setup", resources);
  const edge = await openNats({ url: natsUrl, seed: natsKeys["edge-setup"].seed }, "edge-setup", resources);
  if (options.prepare === true) await prepareNats({ core: nats, edge, shards });
  const open = options.prepare === true ? openAndMigrate : openMigratedDatabase;
  const database = resources.add("database", await open(databaseUrl), ({ close }) => close());
  return { nats, edge, database, blobs: openBlobs(serviceFolders(folder).blobs), shards };
}

async function openAndMigrate(url: string): Promise<Database> {
  const database = await openDatabase(url);
  await migrate(database);
  return database;
}

async function addresses(
  context: Context,
  folder: StateFolder,
  options: StoresOptions & { shards: number },
  resources: Resources,
): Promise<Addresses> {
  const environment = { ...(await setUpEnvironment(folder)), ...given(context.environment) };
  const lock = await lockState(folder, options.command).catch((error: unknown) => {
    if (!(error instanceof Refusal) || options.prepare === true) throw error;
    return error;
  });
  if (lock instanceof Refusal) return runningAddresses(folder, environment, lock);
  resources.add("state folder's lock", lock, ({ release }) => release());
  const { secrets } = await openSecrets(folder);
  const { terminal } = context;
  if (!environment["NATS_URL"] || !environment["DATABASE_URL"])
    terminal.err("nothing runs on the state folder: its embedded servers are started for this command\n");
  const parts = { folder, secrets, shards: options.shards, environment, steps: printedSteps(terminal) };
  const { nats, databaseUrl } = await openInfrastructure({ ...parts, log: () => silentLog }, resources);
  return { natsUrl: nats.url, natsKeys: nats.keys, databaseUrl };
}

/** What `pistis setup` wrote for the projector, who reads the same two. */
async function setUpEnvironment(folder: StateFolder): Promise<Environment> {
  const file = join(folder.path, "env", "projector.env");
  if (!(await pathExists(file))) return {};
  const { NATS_URL, DATABASE_URL } = parseEnv(await readFile(file, "utf8"));
  return given({ NATS_URL, DATABASE_URL });
}

function given(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== undefined && value !== ""));
}

async function runningAddresses(folder: StateFolder, environment: Environment, inUse: Refusal): Promise<Addresses> {
  const running = await readRunning(folder);
  const { secrets } = await openSecrets(folder);
  const natsUrl = environment["NATS_URL"] ?? running?.natsUrl;
  const databaseUrl = environment["DATABASE_URL"] ?? withPassword(running?.databaseUrl, secrets);
  if (natsUrl === undefined || databaseUrl === undefined) throw inUse;
  return { natsUrl, natsKeys: secrets.natsKeys, databaseUrl };
}

function withPassword(url: string | undefined, { postgresPassword }: Secrets): string | undefined {
  if (url === undefined) return undefined;
  const address = new URL(url);
  address.password = postgresPassword;
  return address.href;
}
