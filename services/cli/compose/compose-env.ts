// `pistis compose-env`: the secrets of an install that docker-compose.yml runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Context } from "../context.ts";
import { readIfThere, writePrivateFile } from "../state/state-folder.ts";
import { completedEnv } from "./compose-values.ts";

type Options = { file: string };

const HELP = `
docker-compose.yml gives each service the secrets that it needs and no other. What the file holds already stays as it is;
what a newer version needs is added. Only its owner may read it.

Example:
  $ pistis compose-env
  $ docker compose up -d`;

export function addComposeEnv(program: Command, context: Context): void {
  program
    .command("compose-env")
    .summary("make the .env file of docker-compose.yml")
    .description("Makes the .env file that docker-compose.yml takes its secrets from.")
    .option("--file <file>", "where it is written", ".env")
    .addHelpText("after", HELP)
    .action(async ({ file }: Options) => {
      const path = resolve(context.cwd, file);
      const { text, added } = completedEnv(await readIfThere(path));
      if (added.length > 0) await writePrivateFile(path, text);
      context.terminal.out(
        added.length > 0 ? `${path}: ${added.length} values made\n` : `${path}: nothing is missing\n`,
      );
    });
}
