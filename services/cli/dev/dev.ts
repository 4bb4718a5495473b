// `pistis dev`: every service of an install in this one process.
import { type Command, Option } from "commander";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK } from "../exit-codes.ts";
import { wholeNumber } from "../option-values.ts";
import { durationText } from "../terminal/quantities.ts";
import type { InstallOptions, RunningInstall } from "./install.ts";
import { addNetworkOptions, type NetworkOptions } from "./network-options.ts";

type Options = NetworkOptions & { state?: string } & Pick<
    InstallOptions,
    "port" | "config" | "provider" | "image" | "verbose"
  >;

const PROVIDER_HELP =
  "where sandboxes run (default: sandboxes.provider; else docker when it answers and has the image, else local)";

const HELP = `
Examples:
  $ pistis dev
  $ pistis dev --provider docker --image my-team/sandbox
  $ pistis dev --allow-registry npm --allow api.example.com:8443
  $ pistis dev --state /var/lib/pistis --port 4180 --config /etc/pistis/pistis.json

The first start prints the admin token; it is kept in secrets.json of the state folder.
NATS_URL and DATABASE_URL name servers of your own instead of the embedded ones.
Ctrl-C or SIGTERM stops everything in order; the next start goes on where this one was.`;

export function addDev(program: Command, context: Context, finish: (exitCode: number) => void): void {
  const command = program
    .command("dev")
    .summary("run everything on this machine")
    .description("Runs every service in this process, with an embedded NATS and PostgreSQL.")
    .option(...STATE_OPTION)
    .option("--port <number>", "port of the HTTP API (default: server.port of pistis.json)", wholeNumber(0, 65_535))
    .option("--config <file>", "pistis.json (default: ./pistis.json, if there is one)")
    .addOption(new Option("--provider <name>", PROVIDER_HELP).choices(["docker", "local"]))
    .option("--image <name>", "what Docker sandboxes are made of (default: sandboxes.image, else pistis/sandbox)");
  addNetworkOptions(command)
    .addHelpText("after", HELP)
    .action(async (options: Options) => finish(await runDev(context, options)));
}

async function runDev(context: Context, options: Options): Promise<number> {
  const { startInstall } = await import("./install.ts");
  const { terminal } = context;
  const folder = folderOf(context, options.state);
  const startedAt = performance.now();
  const stopping = new AbortController();
  // Heard during the start too: it is then stopped as soon as it is complete.
  const stopListening = context.onStop(() => {
    // Nothing is lost by leaving at once: it is what a crash does.
    if (stopping.signal.aborted) process.exit(EXIT_INTERRUPTED);
    stopping.abort();
  });
  terminal.err(`${terminal.paint("bold", "pistis dev")}, state in ${folder.path}\n`);
  try {
    const install = await startInstall(context, folder, { ...options, network: options, command: "pistis dev" });
    try {
      terminal.err(`ready in ${durationText(performance.now() - startedAt)}\n`);
      terminal.err(`new sandboxes may reach ${install.network}\n`);
      printAccess(context, install, folder.secrets);
      return await untilStopped(context, install, stopping.signal);
    } finally {
      terminal.err("stopping; once more to leave at once\n");
      await install.close();
      terminal.err("stopped; everything is kept in the state folder\n");
    }
  } finally {
    stopListening();
  }
}

function printAccess({ terminal }: Context, { url, adminToken, fresh }: RunningInstall, secretsFile: string): void {
  terminal.out(`URL    ${url}\n`);
  if (fresh) terminal.out(`token  ${adminToken}\n       kept in ${secretsFile}\n`);
  else terminal.out(`token  as at the first start: adminToken in ${secretsFile}\n`);
}

async function untilStopped({ terminal }: Context, { died }: RunningInstall, stopping: AbortSignal): Promise<number> {
  await aborted(AbortSignal.any([stopping, died]));
  if (stopping.aborted) return EXIT_OK;
  const reason = died.reason instanceof Error ? died.reason.message : "a part of it ended by itself";
  terminal.err(
    `${terminal.paint("red", "pistis:")} ${reason}\n  next: start it again; pistis doctor says what is wrong\n`,
  );
  return EXIT_FAILED;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
