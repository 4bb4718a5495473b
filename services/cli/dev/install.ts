// The composition root: opens what an install stands on, then every service of it, in the order in which they need
// each other. Closing goes the other way.
import { join } from "node:path";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { ProviderName } from "#services/providers/registry.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfig } from "#shared/config/read-config.ts";
import { openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { Resources } from "#shared/service/resources.ts";
import type { Context } from "../context.ts";
import { lockState } from "../state/lock.ts";
import { openSecrets } from "../state/secrets.ts";
import { removeServerFile, writeServerFile } from "../state/server-file.ts";
import { makeStateFolder, type StateFolder } from "../state/state-folder.ts";
import { type Chosen, chooseProvider } from "./choose-provider.ts";
import { configFileIn } from "./config-file.ts";
import { prepareStreams } from "./connections.ts";
import { openInfrastructure } from "./infrastructure.ts";
import { openLogFile } from "./log-file.ts";
import { type NetworkOptions, networkText, withNetwork } from "./network-options.ts";
import { type ServiceParts, startServices } from "./services.ts";
import { printedSteps } from "./steps.ts";

export type InstallOptions = Readonly<{
  /** Of the HTTP API; 0 takes free ones for it and the relay. pistis.json's when absent. */
  port?: number;
  /** pistis.json, if another than ./pistis.json. */
  config?: string;
  /** Where sandboxes run and what they are made of; pistis.json's when absent. */
  provider?: ProviderName;
  image?: string;
  verbose?: boolean;
  /** What sandboxes may reach besides what pistis.json allows. */
  network?: NetworkOptions;
  /** Who holds the state folder, for the next one who wants it. */
  command: string;
}>;

export type RunningInstall = Readonly<{
  url: string;
  adminToken: string;
  /** What new sandboxes may reach, for people. */
  network: string;
  /** This was the state folder's first start. */
  fresh: boolean;
  /** Aborts, with the reason, when a part of it ends by itself. */
  died: AbortSignal;
  close: () => Promise<void>;
}>;

/** Resolves when the HTTP API answers. Throws Refusals with the next step for what stands in the way. */
export async function startInstall(
  context: Context,
  folder: StateFolder,
  options: InstallOptions,
): Promise<RunningInstall> {
  const written = await readConfig(await configFileIn(options.config, context.cwd), context.environment);
  const config = withOptions(withNetwork(written, options.network ?? {}), options);
  const resources = new Resources();
  try {
    await makeStateFolder(folder);
    resources.add("state folder's lock", await lockState(folder, options.command), ({ release }) => release());
    const { secrets, fresh } = await openSecrets(folder);
    const log = await openLogFile(folder, context.terminal, options.verbose ?? false);
    const steps = printedSteps(context.terminal);
    const { environment } = context;
    const { shards } = config.ledger;
    const base = await openInfrastructure({ folder, secrets, shards, environment, steps, log }, resources);
    const database = await steps.run("database", async () => {
      const opened = resources.add("database", await openDatabase(base.databaseUrl), ({ close }) => close());
      await migrate(opened);
      return opened;
    });
    await steps.run("streams and consumers", () => prepareStreams(base.nats, shards), durabilityText);
    const { kind: provider } = await steps.run("sandboxes", () => chooseProvider(config.sandboxes), providerText);
    const parts: ServiceParts = {
      config: { ...config, sandboxes: { ...config.sandboxes, provider } },
      provider,
      folder,
      secrets,
      relayKey: environment["PISTIS_RELAY_KEY"] || secrets.relayKey,
      nats: base.nats,
      database,
      blobs: openBlobs(join(folder.path, "blobs")),
      log,
    };
    const { url } = await startServices(parts, steps, resources);
    await writeServerFile(folder, { url, natsUrl: base.nats.url, ...embeddedDatabase(base.databaseUrl, environment) });
    resources.add("server file", folder, removeServerFile);
    const shown = { url, adminToken: secrets.adminToken, network: networkText(config) };
    const died = AbortSignal.any([base.died, resources.broken]);
    return { ...shown, fresh, died, close: () => resources.close() };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

/** One of your own is named by the environment again: its address may hold a password that is not ours to keep. */
function embeddedDatabase(url: string, environment: Context["environment"]): { databaseUrl?: string } {
  if (environment["DATABASE_URL"]) return {};
  const address = new URL(url);
  address.password = "";
  return { databaseUrl: address.href };
}

function withOptions(config: PistisConfig, { port, provider, image }: InstallOptions): PistisConfig {
  const given = { ...(provider === undefined ? {} : { provider }), ...(image === undefined ? {} : { image }) };
  return withPorts({ ...config, sandboxes: { ...config.sandboxes, ...given } }, port);
}

function providerText({ kind, why }: Chosen): string {
  return `${kind === "docker" ? "Docker" : "this machine"}: ${why}`;
}

function withPorts(config: PistisConfig, port: number | undefined): PistisConfig {
  if (port === undefined) return config;
  const relay = port === 0 ? { ...config.relay, port: 0 } : config.relay;
  return { ...config, server: { ...config.server, port }, relay };
}

/** An embedded server is warned about when it is chosen; this also knows one of your own. */
function durabilityText(natsVersion: string): string {
  const [major = 0, minor = 0] = natsVersion.split(".").map(Number);
  if (major > 2 || (major === 2 && minor >= 10)) return "";
  return `nats-server ${natsVersion} is older than 2.10: a power loss can take acknowledged events with it`;
}
