// `pistis setup`: prepares NATS and PostgreSQL for an install whose services are processes of their own.
import type { Command } from "commander";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { readVariables, variables } from "#shared/service/environment.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { configFileIn } from "../dev/config-file.ts";
import { printedSteps } from "../dev/steps.ts";
import { lockState } from "../state/lock.ts";
import { openSecrets } from "../state/secrets.ts";
import { makeStateFolder, type StateFolder } from "../state/state-folder.ts";
import { type EnvironmentFile, writeEnvironmentFiles } from "./environment-files.ts";
import { serviceProcesses } from "./service-processes.ts";

type Options = { state?: string; config?: string };

const HELP = `
Variables:
  NATS_URL          a nats-server with the configuration of \`pistis nats-config\`
  DATABASE_URL      a PostgreSQL database that its user owns
  PISTIS_RELAY_URL  where services reach the relay (default: relay.host and relay.port of pistis.json)

It makes streams, consumers and the bucket, migrates the database, and writes for each service <state>/env/<service>.env,
which only its owner may read and which holds what that service needs and nothing else. What pistis.json takes from the
environment (\${ANTHROPIC_API_KEY}) is not in them: give it to the brain (models) and the publisher (git) alone.
It may be run again at any time: what is there stays.

Example, on one machine:
  $ pistis nats-config --store /var/lib/nats > nats-server.conf && nats-server -c nats-server.conf &
  $ NATS_URL=nats://127.0.0.1:4222 DATABASE_URL=postgres://... pistis setup --state /var/lib/pistis
  $ pistis relay --env /var/lib/pistis/env/relay.env &
  $ pistis brain --env /var/lib/pistis/env/brain.env &      # and the others; as many brains as you like`;

export function addSetup(program: Command, context: Context): void {
  program
    .command("setup")
    .summary("prepare an install whose services are processes of their own")
    .description("Prepares NATS and PostgreSQL, and writes each service's variables into a file of its own.")
    .option("--config <file>", "pistis.json (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", HELP)
    .action(async (options: Options) => {
      const files = await runSetup(context, folderOf(context, options.state), options.config);
      for (const { service, path } of files) context.terminal.out(`${service.command} --env ${path}\n`);
    });
}

async function runSetup(context: Context, folder: StateFolder, option?: string): Promise<EnvironmentFile[]> {
  const { environment, cwd, terminal } = context;
  const shape = {
    NATS_URL: variables.NATS_URL,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_RELAY_URL: variables.PISTIS_RELAY_URL.optional(),
  };
  const { NATS_URL, DATABASE_URL, PISTIS_RELAY_URL } = readVariables(shape, environment, "pistis setup");
  const configFile = await configFileIn(option, cwd);
  const config = await readConfigPart(configFile, environment, { sections: ["ledger", "relay", "server"] });
  const relayUrl = PISTIS_RELAY_URL ?? relayUrlIn(config);
  const { prepareServers } = await import("./prepare-servers.ts");
  await makeStateFolder(folder);
  const lock = await lockState(folder, "pistis setup");
  try {
    const { secrets } = await openSecrets(folder);
    const { natsKeys, relayKey, egressKey, adminToken, installId } = secrets;
    const servers = { natsUrl: NATS_URL, natsKeys, databaseUrl: DATABASE_URL };
    await prepareServers(printedSteps(terminal), { ...servers, shards: config.ledger.shards });
    const values = { ...servers, relayUrl, configFile };
    return await writeEnvironmentFiles(folder, serviceProcesses, {
      ...values,
      relayKey,
      egressKey,
      adminToken,
      installId,
    });
  } finally {
    await lock.release();
  }
}

function relayUrlIn({ relay }: PistisConfig): string {
  if (relay.port === 0) {
    throw new Refusal("relay_port_open", "relay.port is 0, so nobody would know where the relay is", {
      next: "Set relay.port in pistis.json to a fixed one",
    });
  }
  const everywhere = relay.host === "0.0.0.0" || relay.host === "::";
  const host = everywhere ? "127.0.0.1" : relay.host;
  return `http://${host.includes(":") ? `[${host}]` : host}:${relay.port}`;
}
