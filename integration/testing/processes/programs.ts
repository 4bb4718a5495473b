// How each part of an install is started as an operator would start it: nats-server with the configuration of
// `pistis nats-config`, PostgreSQL, and `pistis <service> --env <file of pistis setup>`.
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { findNatsServer } from "#shared/embedded/find-nats-server.ts";
import { startPostgres } from "#shared/embedded/postgres.ts";
import { silentLog } from "#shared/service/log.ts";
import { guardTree, type Identity, identify, signal, treeOf, untilGone } from "./process-tree.ts";
import { type Exit, type Lines, launch, type Running } from "./program.ts";

const MAIN = resolve(import.meta.dirname, "../../../services/cli/main.ts");
const run = promisify(execFile);

/** Where everything of the install is. */
export type Place = Readonly<{
  /** Holds pistis.json, the state folder and the servers' files. */
  folder: string;
  statePath: string;
  natsPort: number;
  postgresPort: number;
  postgresPassword: string;
}>;

export type StartOptions = Readonly<{
  /** Variables besides PATH, HOME and NODE_COMPILE_CACHE. */
  environment?: Readonly<Record<string, string>>;
}>;

const { PATH = "", HOME = "", NODE_COMPILE_CACHE } = process.env;
/** Of every process that is Node's. */
const OWN = { PATH, HOME, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) };

/** Runs a command of the command line to its end; resolves with its output. */
export async function pistis(
  { folder, statePath }: Place,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<string> {
  const env = { ...OWN, PISTIS_STATE: statePath, ...environment };
  const { stdout } = await run(process.execPath, [MAIN, ...args], { cwd: folder, env });
  return stdout;
}

export async function launchService(
  { folder, statePath }: Place,
  service: string,
  lines: Lines,
  { environment = {} }: StartOptions,
): Promise<Running> {
  const words = service === "provider-local" ? ["provider", "local"] : [service];
  return launch(
    {
      command: [process.execPath, MAIN, ...words, "--env", join(statePath, "env", `${service}.env`)],
      environment: { ...OWN, ...environment },
      cwd: folder,
      readyLine: new RegExp(`^ready ${service}( |$)`),
    },
    lines,
  );
}

export async function writeNatsConfig(place: Place): Promise<void> {
  const { folder, natsPort } = place;
  const places = ["--store", join(folder, "nats"), "--pid-file", join(folder, "nats-server.pid")];
  const text = await pistis(place, ["nats-config", "--port", String(natsPort), ...places]);
  await writeFile(join(folder, "nats-server.conf"), text);
}

export async function launchNats({ folder }: Place, lines: Lines): Promise<Running> {
  const { command } = await findNatsServer({ log: silentLog });
  return launch(
    {
      command: [command, "-c", join(folder, "nats-server.conf")],
      environment: { PATH, HOME },
      cwd: folder,
      readyLine: /Server is ready/,
    },
    lines,
  );
}

/** Resolves when it answers. A signal reaches all of its processes: a backend must not outlive the postmaster. */
export async function launchPostgres(place: Place): Promise<Running & { url: string }> {
  const { pid, url } = await startPostgres({
    stateDir: place.folder,
    password: place.postgresPassword,
    port: place.postgresPort,
    log: silentLog,
    withParent: true,
  });
  const { promise: exited, resolve: end } = Promise.withResolvers<Exit>();
  const letGo = guardTree(pid);
  let dying: readonly Identity[] = [];
  const send = (name: NodeJS.Signals) => {
    const all = treeOf(pid);
    if (name !== "SIGSTOP" && name !== "SIGCONT") dying = identify(all);
    // An orderly stop is the postmaster's own affair. Its SIGTERM would wait for every client to leave by itself.
    if (name === "SIGTERM" || name === "SIGINT") signal(pid, "SIGINT");
    else for (const member of all) signal(member, name);
  };
  void untilGone(identify([pid]))
    .then(() => untilGone(dying))
    .then(() => {
      letGo();
      end({ code: null, signal: null });
    });
  return { pid, url, ready: Promise.resolve(), exited, lastLines: [], signal: send };
}
