// A whole install of real processes: nats-server, PostgreSQL and every service, each of which can be started, killed,
// stopped and continued on its own. What runs is what an operator would start; nothing of it outlives this process.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Server } from "#services/cli/client/api.ts";
import { readAdminToken } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { stablePort } from "./processes/ports.ts";
import { isAlive } from "./processes/process-tree.ts";
import type { Exit, Lines, Running } from "./processes/program.ts";
import {
  launchNats,
  launchPostgres,
  launchService,
  type Place,
  pistis,
  type StartOptions,
  writeNatsConfig,
} from "./processes/programs.ts";
import type { ConfigFile } from "./running-install.ts";

const SERVICES = ["relay", "egress", "provider-local", "scheduler", "projector", "publisher", "gateway"] as const;
/** These have neither a port nor a folder of their own, so one machine can run several. */
type Replicated = "brain" | "scheduler" | "projector";

const STOP_MS_MAX = 10_000;

export type ProcessName = "nats-server" | "postgres" | (typeof SERVICES)[number] | `${Replicated}-${number}`;

export type ServiceProcessesOptions = Readonly<{
  /** pistis.json; the ports of server and relay are set here. */
  config?: ConfigFile;
  /** `brain-1` to `brain-<brains>`; 2 when absent. */
  brains?: number;
  /** More of these, called `scheduler-2` and so on. */
  schedulers?: number;
  projectors?: number;
  /** More variables of a service, at each of its starts. */
  environments?: Partial<Record<(typeof SERVICES)[number] | Replicated, Readonly<Record<string, string>>>>;
}>;

/** An end that nobody asked for. Its last line may come a little later. */
export type Death = Readonly<{ name: ProcessName; exit: Exit; lastLines: readonly string[] }>;

export type ServiceProcesses = Readonly<{
  /** pistis.json and everything of the install is in it; removed by `close`. */
  folder: string;
  statePath: string;
  /** The gateway's address and admin token. */
  server: Server;
  natsUrl: string;
  relayUrl: string;
  databaseUrl: string;
  /** Every process, in the order of `startAll`. */
  names: readonly ProcessName[];
  /** Starts those that do not run, servers first, then all services at once. Resolves when all are ready. */
  startAll: () => Promise<void>;
  /** Starts one and resolves when it is ready. Rejects, with its last lines, when it ends before that. */
  start: (name: ProcessName, options?: StartOptions) => Promise<void>;
  /** Starts one; `ready` tells when it serves. PostgreSQL is ready when this resolves. */
  launch: (name: ProcessName, options?: StartOptions) => Promise<void>;
  /** Resolves when the one that runs is ready. */
  ready: (name: ProcessName) => Promise<void>;
  /** Sends the signal (SIGKILL when absent) and resolves when it has ended. A paused one is continued to hear it. */
  kill: (name: ProcessName, signal?: NodeJS.Signals) => Promise<Exit>;
  /** `kill`, then `start`. */
  restart: (name: ProcessName, signal?: NodeJS.Signals) => Promise<void>;
  /** SIGSTOP: it hangs, and nobody is told. */
  pause: (name: ProcessName) => void;
  /** SIGCONT. */
  resume: (name: ProcessName) => void;
  state: (name: ProcessName) => "running" | "paused" | "ended";
  /** Throws when it does not run. */
  pid: (name: ProcessName) => number;
  /** Its last lines, of all its runs. */
  lines: (name: ProcessName) => readonly string[];
  /** The last lines of the run that is under way; none when it has ended. */
  lastLines: (name: ProcessName) => readonly string[];
  /** Everything that ended by itself so far. */
  deaths: readonly Death[];
  /** Ends everything, paused or not, and removes the folder. */
  close: () => Promise<void>;
}>;

type Slot = { running: Running | undefined; paused: boolean; asked: boolean; lines: Lines };
type Install = Readonly<{
  place: Place;
  slots: ReadonlyMap<ProcessName, Slot>;
  deaths: Death[];
  environments: ReadonlyMap<string, Readonly<Record<string, string>>>;
}>;

/** Starts nats-server and PostgreSQL and sets the install up; the services wait for `startAll` or `start`. */
export async function openServiceProcesses(options: ServiceProcessesOptions = {}): Promise<ServiceProcesses> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-processes-"));
  const statePath = join(folder, "state");
  const [natsPort, postgresPort, port, relayPort] = await ports();
  const place = { folder, statePath, natsPort, postgresPort, postgresPassword: newSecret() };
  const names = namesOf(options);
  const slots = new Map(names.map((name) => [name, { running: undefined, paused: false, asked: false, lines: [] }]));
  const environments = new Map(Object.entries(options.environments ?? {}));
  const install: Install = { place, slots, deaths: [], environments };
  try {
    await mkdir(statePath);
    const config = { ...options.config, server: { port }, relay: { port: relayPort } };
    await writeFile(join(folder, "pistis.json"), JSON.stringify(config));
    await writeNatsConfig(place);
    await Promise.all([start(install, "nats-server"), start(install, "postgres")]);
    const natsUrl = `nats://127.0.0.1:${natsPort}`;
    const databaseUrl = `postgres://pistis:${place.postgresPassword}@127.0.0.1:${postgresPort}/pistis`;
    await pistis(place, ["setup"], { NATS_URL: natsUrl, DATABASE_URL: databaseUrl });
    const token = (await readAdminToken(stateFolder(statePath, {}, folder))) ?? "";
    const server = { url: `http://127.0.0.1:${port}`, token };
    const relayUrl = `http://127.0.0.1:${relayPort}`;
    return { folder, statePath, server, natsUrl, relayUrl, databaseUrl, names, ...controls(install) };
  } catch (error) {
    await close(install);
    throw error;
  }
}

function controls(install: Install) {
  return {
    startAll: () => startAll(install),
    start: (name: ProcessName, options?: StartOptions) => start(install, name, options),
    launch: (name: ProcessName, options?: StartOptions) => launch(install, name, options),
    ready: (name: ProcessName) => runningOf(install, name).ready,
    kill: (name: ProcessName, signal?: NodeJS.Signals) => kill(install, name, signal),
    restart: async (name: ProcessName, signal?: NodeJS.Signals) => {
      await kill(install, name, signal);
      await start(install, name);
    },
    pause: (name: ProcessName) => pause(install, name),
    resume: (name: ProcessName) => resume(install, name),
    state: (name: ProcessName) => stateOf(slotOf(install, name)),
    pid: (name: ProcessName) => runningOf(install, name).pid,
    lines: (name: ProcessName) => slotOf(install, name).lines,
    lastLines: (name: ProcessName) => slotOf(install, name).running?.lastLines ?? [],
    deaths: install.deaths,
    close: () => close(install),
  };
}

async function ports(): Promise<[number, number, number, number]> {
  const found = new Set<number>();
  while (found.size < 4) found.add(await stablePort());
  const [first = 0, second = 0, third = 0, fourth = 0] = found;
  return [first, second, third, fourth];
}

function namesOf({ brains = 2, schedulers = 1, projectors = 1 }: ServiceProcessesOptions): ProcessName[] {
  const more = (service: Replicated, from: number, count: number): ProcessName[] =>
    Array.from({ length: Math.max(0, count - from + 1) }, (_, index) => `${service}-${from + index}` as const);
  return [
    "nats-server",
    "postgres",
    ...SERVICES,
    ...more("scheduler", 2, schedulers),
    ...more("projector", 2, projectors),
    ...more("brain", 1, brains),
  ];
}

function slotOf({ slots }: Install, name: ProcessName): Slot {
  const slot = slots.get(name);
  if (slot === undefined) throw new Error(`There is no ${name} in this install`);
  return slot;
}

function runningOf(install: Install, name: ProcessName): Running {
  const { running } = slotOf(install, name);
  if (running === undefined) throw new Error(`${name} does not run`);
  return running;
}

function stateOf({ running, paused }: Slot): "running" | "paused" | "ended" {
  if (running === undefined) return "ended";
  return paused ? "paused" : "running";
}

async function startAll(install: Install): Promise<void> {
  const missing = [...install.slots].flatMap(([name, { running }]) => (running === undefined ? [name] : []));
  const isServer = (name: ProcessName) => name === "nats-server" || name === "postgres";
  await Promise.all(missing.filter(isServer).map((name) => start(install, name)));
  await Promise.all(missing.filter((name) => !isServer(name)).map((name) => start(install, name)));
}

async function start(install: Install, name: ProcessName, options?: StartOptions): Promise<void> {
  await launch(install, name, options);
  await runningOf(install, name).ready;
}

async function launch(install: Install, name: ProcessName, options: StartOptions = {}): Promise<void> {
  const slot = slotOf(install, name);
  if (slot.running !== undefined) throw new Error(`${name} runs already`);
  const running = await launchProgram(install, name, slot.lines, options);
  Object.assign(slot, { running, paused: false, asked: false });
  void running.exited.then((exit) => {
    slot.running = undefined;
    if (!slot.asked) install.deaths.push({ name, exit, lastLines: running.lastLines });
  });
}

function launchProgram(install: Install, name: ProcessName, lines: Lines, options: StartOptions): Promise<Running> {
  const { place, environments } = install;
  if (name === "nats-server") return launchNats(place, lines);
  if (name === "postgres") return launchPostgres(place);
  const service = name.replace(/-\d+$/, "");
  const own = service === "brain" ? { PISTIS_BRAIN_NAME: name } : {};
  return launchService(place, service, lines, {
    environment: { ...own, ...environments.get(service), ...options.environment },
  });
}

async function kill(install: Install, name: ProcessName, signal: NodeJS.Signals = "SIGKILL"): Promise<Exit> {
  const slot = slotOf(install, name);
  const running = runningOf(install, name);
  slot.asked = true;
  running.signal(signal);
  if (slot.paused) running.signal("SIGCONT");
  return running.exited;
}

function pause(install: Install, name: ProcessName): void {
  runningOf(install, name).signal("SIGSTOP");
  slotOf(install, name).paused = true;
}

function resume(install: Install, name: ProcessName): void {
  runningOf(install, name).signal("SIGCONT");
  slotOf(install, name).paused = false;
}

/** The provider is asked, so that it ends its sandboxes and removes what it made outside the folder. */
async function close(install: Install): Promise<void> {
  const { slots, place } = install;
  const provider = slots.get("provider-local")?.running;
  if (provider !== undefined && isAlive(provider.pid)) {
    const patience = setTimeout(() => provider.signal("SIGKILL"), STOP_MS_MAX);
    await kill(install, "provider-local", "SIGTERM").finally(() => clearTimeout(patience));
  }
  const left = [...slots].filter(([, { running }]) => running !== undefined);
  await Promise.all(left.map(([name]) => kill(install, name)));
  await rm(place.folder, { recursive: true, force: true });
}
