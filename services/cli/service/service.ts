// `pistis brain`, `pistis relay`, ...: one service of an install as a process of its own.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseEnv } from "node:util";
import type { Command } from "commander";
import type { Environment } from "#shared/config/interpolate.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { runService, type ServiceProcess } from "#shared/service/service-process.ts";
import type { Context } from "../context.ts";
import { serviceProcesses } from "./service-processes.ts";

type Options = { env?: string };

const HOW = `
It prints \`ready <name> [url]\` when it serves and logs JSON lines on standard error. At its start it waits a minute for
NATS or PostgreSQL that are away, and says so. SIGTERM or Ctrl-C: it refuses new work, finishes what is in hand and ends
with exit code 0. \`pistis setup\` writes the variables into files.`;

export function addServices(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program.commandsGroup("One service as a process of its own:");
  for (const service of serviceProcesses) {
    commandFor(program, service)
      .summary(service.about)
      .description(`Runs the service ${service.name} alone: ${service.about}.`)
      .option("--env <file>", "file with the variables, one NAME=value a line; it wins over the environment")
      .addHelpText("after", `\nVariables:\n${service.help}\n${HOW}`)
      .action(async (options: Options) => finish(await run(service, context, options)));
  }
}

/** `provider local` is a command below `provider`. */
function commandFor(program: Command, { command }: ServiceProcess): Command {
  const [, name = "", kind] = command.split(" ");
  if (kind === undefined) return program.command(name);
  const parent = program.commands.find((known) => known.name() === name) ?? program.command(name);
  return parent
    .summary("makes sandboxes of one kind")
    .copyInheritedSettings(program)
    .command(kind)
    .copyInheritedSettings(program);
}

async function run(service: ServiceProcess, context: Context, { env }: Options): Promise<number> {
  const { environment, cwd, terminal, onStop } = context;
  const own = env === undefined ? {} : await readEnvironment(resolve(cwd, env));
  return runService(service, {
    environment: { ...environment, ...own },
    out: terminal.out,
    err: terminal.err,
    onStop,
  });
}

async function readEnvironment(file: string): Promise<Environment> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    const next = "Check the path after --env; `pistis setup` writes such files";
    throw new Refusal("env_file_missing", `${file} cannot be read`, { cause, next });
  });
  return parseEnv(text);
}
