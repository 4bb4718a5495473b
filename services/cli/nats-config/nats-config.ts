// `pistis nats-config`: what a NATS server of one's own must know of this install.
import type { Command } from "commander";
import { readConfigPart } from "#shared/config/read-config.ts";
import { natsServerConfig } from "#shared/nats/server-config.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { configFileIn } from "../dev/config-file.ts";
import { wholeNumber } from "../option-values.ts";
import { lockState } from "../state/lock.ts";
import { openSecrets } from "../state/secrets.ts";
import { makeStateFolder } from "../state/state-folder.ts";

type Options = { host: string; port: number; store: string; pidFile: string; config?: string; state?: string };

const EXAMPLES = `
Example:
  $ pistis nats-config --store /var/lib/nats > nats-server.conf
  $ nats-server -c nats-server.conf &
  $ NATS_URL=nats://127.0.0.1:4222 pistis dev

It holds the public halves of the keys in the state folder's secrets.json, and no secret. It is for nats-server 2.10 or
later. Where it goes over a network, add tls to it.`;

export function addNatsConfig(program: Command, context: Context): void {
  program
    .command("nats-config")
    .summary("print the configuration for a NATS server of your own")
    .description("Prints a nats-server configuration with the accounts, users and rights of this install.")
    .option("--host <address>", "address that it listens on", "127.0.0.1")
    .option("--port <number>", "its port", wholeNumber(1, 65_535), 4_222)
    .option("--store <dir>", "where it keeps the ledger", "/var/lib/nats")
    .option("--pid-file <file>", "where it writes its process number", "/run/nats-server.pid")
    .option("--config <file>", "pistis.json, for ledger.shards (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", EXAMPLES)
    .action(async (options: Options) => context.terminal.out(await configText(context, options)));
}

async function configText(context: Context, options: Options): Promise<string> {
  const configFile = await configFileIn(options.config, context.cwd);
  const { ledger } = await readConfigPart(configFile, context.environment, { sections: ["ledger"] });
  const folder = folderOf(context, options.state);
  await makeStateFolder(folder);
  const lock = await lockState(folder, "pistis nats-config");
  try {
    const { natsKeys } = (await openSecrets(folder)).secrets;
    const { host, port, store: storeDir, pidFile } = options;
    return natsServerConfig(natsKeys, { host, port, storeDir, pidFile, shards: ledger.shards, syncAlways: true });
  } finally {
    await lock.release();
  }
}
