// A nats-server of our own, as a child process, for one machine: its store and its configuration are in the state
// directory, it listens on the loopback address only, and it ends with its parent.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Fatal } from "#shared/errors/errors.ts";
import type { NatsKeys } from "#shared/nats/keys.ts";
import { natsServerConfig } from "#shared/nats/server-config.ts";
import type { Log } from "#shared/service/log.ts";
import { findNatsServer, type NatsServerBinary } from "./find-nats-server.ts";
import { stopOrphan } from "./orphan.ts";
import { runCommand } from "./run-command.ts";

export type NatsServer = Readonly<{
  url: string;
  version: string;
  pid: number;
  /** An acknowledged event outlives a power loss. */
  durable: boolean;
  /** Aborts when the server ends without having been asked to. Its reason says how. */
  died: AbortSignal;
  close: () => Promise<void>;
}>;

const HOST = "127.0.0.1";
const START_MS = 30_000;
const STOP_MS = 10_000;
const LINES_KEPT = 20;

/**
 * Finds a server (saying how), starts it and resolves when it accepts connections. One that an earlier start in the
 * same directory left behind is stopped first; one whose owner still lives is a Refusal `state_in_use`.
 */
export async function startNatsServer(options: {
  stateDir: string;
  keys: NatsKeys;
  /** As in pistis.json. */
  shards: number;
  /** A free one when absent. */
  port?: number;
  /** Where a downloaded server is kept; ~/.cache/pistis when absent. */
  cacheDir?: string;
  log: Log;
}): Promise<NatsServer> {
  const { stateDir, keys, log } = options;
  const binary = await findNatsServer({ cacheDir: options.cacheDir, log });
  const storeDir = join(stateDir, "jetstream");
  const configFile = join(stateDir, "nats-server.conf");
  const pidFile = join(stateDir, "nats-server.pid");
  await mkdir(storeDir, { recursive: true, mode: 0o700 });
  await stopOrphan({ pidFile, configFile, log });
  const config = { storeDir, host: HOST, port: options.port ?? -1, pidFile, shards: options.shards };
  await writeFile(configFile, natsServerConfig(keys, { ...config, syncAlways: binary.durable }), { mode: 0o600 });
  return run(binary, configFile, log);
}

async function run(binary: NatsServerBinary, configFile: string, log: Log): Promise<NatsServer> {
  const child = await launch(binary.command, ["-c", configFile]);
  const died = new AbortController();
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  let closing = false;
  exited.then((how) => {
    if (closing) return;
    died.abort(new Fatal("nats_server_died", `nats-server ended with ${how}`));
    log.error({ how }, "nats-server has ended");
  }, ignored);
  const close = async () => {
    closing = true;
    await stop(child, exited);
  };
  try {
    const port = await listening(child, exited, log);
    log.info({ port, pid: child.pid, version: binary.version }, "nats-server is ready");
    const url = `nats://${HOST}:${port}`;
    return { url, version: binary.version, pid: child.pid ?? 0, durable: binary.durable, died: died.signal, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Where there is setpriv (Linux), the kernel itself ends the server with its parent. Elsewhere it goes when it next
 * writes to the log, whose reader is gone; and the next start in the directory stops whatever was left.
 */
async function launch(command: string, args: readonly string[]): Promise<ChildProcess> {
  const tied = ["--pdeathsig", "TERM"];
  const canTie = await runCommand("setpriv", [...tied, "true"]).then(
    () => true,
    () => false,
  );
  const [program, ...rest] = canTie ? ["setpriv", ...tied, command, ...args] : [command, ...args];
  // A group of its own: Ctrl-C at the terminal reaches the parent alone, which then closes things in order.
  return spawn(program, rest, { stdio: ["ignore", "ignore", "pipe"], detached: true });
}

/** Resolves with the port. Goes on passing the server's warnings to the log afterwards. */
function listening(child: ChildProcess, exited: Promise<string>, log: Log): Promise<number> {
  const last: string[] = [];
  return new Promise<number>((resolve, reject) => {
    let port = 0;
    const fail = (how: string) =>
      reject(
        new Fatal("nats_server_failed", `nats-server did not start (${how}):\n${last.join("\n")}`, {
          next: "Read the server's own words above. `pistis doctor` checks the port, the disk and the directory.",
        }),
      );
    const timer = setTimeout(() => fail(`not ready within ${START_MS} ms`), START_MS);
    exited.then(fail, reject).finally(() => clearTimeout(timer));
    createInterface({ input: child.stderr ?? process.stdin }).on("line", (line) => {
      last.push(line);
      if (last.length > LINES_KEPT) last.shift();
      report(line, log);
      port = Number(/Listening for client connections on \S+:(\d+)/.exec(line)?.[1] ?? port);
      if (!line.includes("Server is ready")) return;
      clearTimeout(timer);
      resolve(port);
    });
  });
}

function report(line: string, log: Log): void {
  if (line.includes("[WRN]")) log.warn({ line }, "nats-server warns");
  if (line.includes("[ERR]") || line.includes("[FTL]")) log.error({ line }, "nats-server reports an error");
}

async function stop(child: ChildProcess, exited: Promise<string>): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await exited;
  clearTimeout(timer);
}

function ignored(): void {
  // `exited` never rejects.
}
