// A PostgreSQL server of our own in the state folder: made at the first start, adopted when an earlier parent was
// killed and left it running, stopped with its parent otherwise.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { postgresAccount } from "./postgres-account.ts";
import { findPostgres } from "./postgres-binaries.ts";
import { connectionProblem, createDatabase, PostgresCode } from "./postgres-connection.ts";
import { makeDataFolder, POSTGRES_USER, postgresEnvironment } from "./postgres-data.ts";

const HOST = "127.0.0.1";
const DATABASE = "pistis";
const READY_MS_MAX = 60_000;
const POLL_MS = 10;
const WATCH_MS = 1_000;
const STOP_MS_MAX = 20_000;
const PORT_ATTEMPTS_MAX = 5;

/** What a crash or a power loss must not undo, whatever a configuration file says. */
const SETTINGS = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
  log_min_messages: "warning",
};

export type RunningPostgres = Readonly<{
  /** Of a superuser, on loopback, password included: never log it. */
  url: string;
  pid: number;
  /** It was already running, left by a parent that was killed. */
  adopted: boolean;
  /** Aborts, with the reason, when the server ends without having been asked to. */
  died: AbortSignal;
  close: () => Promise<void>;
}>;

type Place = Readonly<{ folder: string; dataDir: string; logFile: string; password: string }>;
type Server = { pid: number; port: number };

/**
 * Starts (or adopts) the server whose files are in `stateDir`/postgres. `password` must be the same at every start.
 * `withParent` kills it with this process: for tests, which have no next start that could adopt it.
 */
export async function startPostgres(options: {
  stateDir: string;
  password: string;
  log: Log;
  withParent?: boolean;
  /** A free one when absent. */
  port?: number;
}): Promise<RunningPostgres> {
  const folder = join(options.stateDir, "postgres");
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const place = {
    folder,
    dataDir: join(folder, "data"),
    logFile: join(folder, "server.log"),
    password: options.password,
  };
  const left = await liveServer(place);
  if (left !== undefined) {
    options.log.info({ pid: left.pid }, "adopting the PostgreSQL server that an earlier start left running");
    await createDatabase(urlOf(place, left.port, "postgres"), DATABASE);
    return running(place, left, true);
  }
  const binaries = await findPostgres();
  const account = await postgresAccount({ folder, dataDir: place.dataDir, program: binaries.postgres });
  await makeDataFolder(place, binaries.initdb, account, options.log);
  const withParent = options.withParent ? ["setpriv", "--pdeathsig", "INT", "--"] : [];
  const program = [...account.prefix, ...withParent, binaries.postgres];
  const started = await startServer(place, program, options.port);
  await createDatabase(urlOf(place, started.port, "postgres"), DATABASE);
  return running(place, started, false);
}

function running(place: Place, server: Server, adopted: boolean): RunningPostgres {
  const { died, stop } = watch(place, server.pid);
  const close = async () => {
    stop();
    await stopServer(place, server.pid);
  };
  return { url: urlOf(place, server.port), pid: server.pid, adopted, died, close };
}

/** Looks at the process itself, because an adopted server is not a child of this one. */
function watch(place: Place, pid: number): { died: AbortSignal; stop: () => void } {
  const died = new AbortController();
  const next = `Its log is in ${place.logFile}`;
  const timer = setInterval(async () => {
    if (await isServing(place, pid)) return;
    clearInterval(timer);
    died.abort(new Fatal("postgres_died", "PostgreSQL has ended by itself", { next }));
  }, WATCH_MS);
  timer.unref();
  return { died: died.signal, stop: () => clearInterval(timer) };
}

function urlOf(place: Place, port: number, database = DATABASE): string {
  return `postgres://${POSTGRES_USER}:${encodeURIComponent(place.password)}@${HOST}:${port}/${database}`;
}

/** A free port can be taken by someone else before the server binds it: then the next one is tried. */
async function startServer(place: Place, program: readonly string[], fixedPort?: number): Promise<Server> {
  for (let attempt = 1; ; attempt++) {
    const port = fixedPort ?? (await freePort());
    const settings = Object.entries({ ...SETTINGS, port }).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
    const launched = await launch(place, [...program, "-D", place.dataDir, ...settings], port);
    if ("pid" in launched) return launched;
    if (attempt === PORT_ATTEMPTS_MAX || !launched.failure.includes("could not bind")) {
      throw new Fatal("postgres_start", `PostgreSQL did not start: ${launched.failure}`, {
        next: `The whole log is in ${place.logFile}`,
      });
    }
  }
}

async function launch(
  place: Place,
  commandLine: readonly string[],
  port: number,
): Promise<Server | { failure: string }> {
  const child = await spawnServer(place, commandLine);
  if (child.pid === undefined) throw new Fatal("postgres_start", `${commandLine[0]} could not be started`);
  const given = new AbortController();
  const exited = once(child, "exit", { signal: given.signal }).then(() => "exited" as const);
  const state = await Promise.race([exited, waitUntilReady(place, port, given.signal)]).finally(() => given.abort());
  exited.catch(ignoreAbort);
  child.unref();
  return state === "ready" ? { pid: child.pid, port } : { failure: await logTail(place) };
}

function ignoreAbort(error: Error): void {
  if (error.name !== "AbortError") throw error;
}

/** In a session of its own: Ctrl-C in the terminal must not stop the database before its users. */
async function spawnServer(place: Place, commandLine: readonly string[]): Promise<ChildProcess> {
  const [program = "", ...args] = commandLine;
  const logFile = await open(place.logFile, "w", 0o600);
  try {
    const stdio: Array<"ignore" | number> = ["ignore", logFile.fd, logFile.fd];
    const child = spawn(program, args, { stdio, cwd: "/", env: postgresEnvironment(), detached: true });
    await once(child, "spawn");
    return child;
  } finally {
    await logFile.close();
  }
}

async function logTail(place: Place): Promise<string> {
  return (await readFile(place.logFile, "utf8")).trim().slice(-2_000);
}

async function waitUntilReady(place: Place, port: number, signal: AbortSignal): Promise<"ready" | "given up"> {
  const deadline = Date.now() + READY_MS_MAX;
  while (!signal.aborted) {
    const problem = await connectionProblem(urlOf(place, port, "postgres"));
    if (problem === undefined) return "ready";
    if (problem.code === PostgresCode.wrongPassword) throw wrongPassword(place);
    if (Date.now() > deadline) throw notReady(place, problem.message);
    await delay(POLL_MS);
  }
  return "given up";
}

function notReady(place: Place, problem: string): Fatal {
  return new Fatal("postgres_start", `PostgreSQL gave no answer within ${READY_MS_MAX} ms: ${problem}`, {
    next: `Its log is in ${place.logFile}`,
  });
}

function wrongPassword(place: Place): Refusal {
  return new Refusal("postgres_password", `The database in ${place.dataDir} was made with another password`, {
    next: "Put the state folder's secrets.json back, or use another state folder",
  });
}

/** The server that an earlier start left, once it answers; none when it is dead or on its way out. */
async function liveServer(place: Place): Promise<Server | undefined> {
  const pidFile = join(place.dataDir, "postmaster.pid");
  const deadline = Date.now() + READY_MS_MAX;
  for (;;) {
    const lines = (await readFile(pidFile, "utf8").catch(() => "")).split("\n");
    const server = { pid: Number(lines[0]), port: Number(lines[3]) };
    if (!(await isServing(place, server.pid))) break;
    const answers = lines[7]?.trim() === "ready" && server.port > 0;
    const problem = answers ? await connectionProblem(urlOf(place, server.port, "postgres")) : { code: "starting" };
    if (problem === undefined) return server;
    if (problem.code === PostgresCode.wrongPassword) throw wrongPassword(place);
    if (Date.now() > deadline) throw notReady(place, `pid ${server.pid} neither answers nor ends`);
    await delay(POLL_MS);
  }
  // PostgreSQL takes any live process of that number for a server; this one is known to be none.
  await rm(pidFile, { force: true });
  return undefined;
}

async function isServing(place: Place, pid: number): Promise<boolean> {
  if (!Number.isSafeInteger(pid) || pid <= 1) return false;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  const parts = commandLine.split("\0");
  return parts[parts.indexOf("-D") + 1] === place.dataDir;
}

async function stopServer(place: Place, pid: number): Promise<void> {
  if (!(await isServing(place, pid))) return;
  process.kill(pid, "SIGINT");
  if (await goneWithin(place, pid, STOP_MS_MAX)) return;
  process.kill(pid, "SIGQUIT");
  if (await goneWithin(place, pid, STOP_MS_MAX)) return;
  throw new Fatal("postgres_stop", `PostgreSQL (pid ${pid}) does not stop`, { next: `kill -9 ${pid}` });
}

async function goneWithin(place: Place, pid: number, timeMs: number): Promise<boolean> {
  const deadline = Date.now() + timeMs;
  while (await isServing(place, pid)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Fatal("no_port", "The system gave no port");
  return address.port;
}
