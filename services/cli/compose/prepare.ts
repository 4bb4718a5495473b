// `pistis prepare`: what `pistis setup` does to NATS and PostgreSQL, for an install whose secrets come from elsewhere.
import type { Command } from "commander";
import { readConfigPart } from "#shared/config/read-config.ts";
import { readVariables, variableHelp, variables } from "#shared/service/environment.ts";
import type { Context } from "../context.ts";
import { printedSteps } from "../dev/steps.ts";

const SHAPE = {
  NATS_URL: variables.NATS_URL,
  PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED.describe("nkey seed of the NATS user `setup`"),
  PISTIS_NATS_EDGE_SEED: variables.PISTIS_NATS_EDGE_SEED.describe("nkey seed of the NATS user `edge-setup`"),
  DATABASE_URL: variables.DATABASE_URL.describe("a PostgreSQL database that its user owns"),
  PISTIS_CONFIG: variables.PISTIS_CONFIG,
};

const HELP = `
Variables:
${variableHelp(SHAPE)}

It makes streams, consumers and the bucket, migrates the database and ends. It may be run again at any time, and is
before each new version's services start.`;

export function addPrepare(program: Command, context: Context): void {
  program
    .command("prepare")
    .summary("prepare NATS and PostgreSQL and write no file (docker-compose.yml runs it)")
    .description("Prepares NATS and PostgreSQL for services that get their variables from elsewhere.")
    .addHelpText("after", HELP)
    .action(() => prepare(context));
}

async function prepare({ environment, terminal }: Context): Promise<void> {
  const settings = readVariables(SHAPE, environment, "pistis prepare");
  const { ledger } = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["ledger"] });
  const { prepareServers } = await import("../service/prepare-servers.ts");
  await prepareServers(printedSteps(terminal), {
    natsUrl: settings.NATS_URL,
    natsKeys: { setup: { seed: settings.PISTIS_NATS_SEED }, "edge-setup": { seed: settings.PISTIS_NATS_EDGE_SEED } },
    databaseUrl: settings.DATABASE_URL,
    shards: ledger.shards,
  });
}
