// The install that faults are injected into: real processes, each reached over stretches of network that can be cut,
// each started again when it ends, and each armed, as it starts, with the next step at which it is to die.
import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { REACHED } from "#shared/faults/arm.ts";
import {
  type Death,
  openServiceProcesses,
  type ProcessName,
  type ServiceProcesses,
  type ServiceProcessesOptions,
} from "../testing/service-processes.ts";
import { type NetworkCut, openNetworkCut } from "./network-cut.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const LOOK_EVERY_MS = 20;
/** What a service imports when it opens. */
const OPENS = /^services\/(cli\/program|\w+\/open-\w+)\.ts$|^shared\/(database\/(pool|migrated)|service\/log)\.ts$/;
const START_AGAIN_MS = 150;
const LAST_LINE_MS_MAX = 300;
/** A process that cannot start because another one is down is started again so often before that is an error. */
const STARTS_MAX = 200;

export type KnownDeath = Readonly<{
  atMs: number;
  /** The step at which it ended. */
  reached: string | undefined;
}>;

/** A time in which a process could not do its work; `untilMs` is open while it lasts. */
export type Outage = { readonly name: ProcessName; readonly fromMs: number; untilMs: number };

/** Where a service's own stretch of network leads. */
export type Peer = "nats" | "postgres" | "relay";

export type ServiceName = Exclude<ProcessName, "nats-server" | "postgres">;

export type Stage = Readonly<{
  install: ServiceProcesses;
  services: readonly ServiceName[];
  /** The stretches of network between a service and what it needs. */
  cuts: ReadonlyMap<ServiceName, ReadonlyMap<Peer, NetworkCut>>;
  /** Whatever was down, hung or cut off, and when. */
  outages: readonly Outage[];
  /** Notes that the process can do nothing until the returned function is called. */
  outage: (name: ProcessName) => () => void;
  /** Kills it, if it has not died by itself just now; resolves when it serves again. */
  restart: (name: ProcessName, downMs: number) => Promise<void>;
  /** Resolves when everything runs and serves. */
  settled: () => Promise<void>;
  close: () => Promise<void>;
}>;

export type StageOptions = ServiceProcessesOptions &
  Readonly<{
    /** The step that this start of the service is armed with: `name[:nth][:stop]`. */
    arm: (service: ServiceName) => string | undefined;
    /** A process ended that was not killed from here. Called before it is started again. */
    onDeath: (death: Death, known: KnownDeath) => void;
  }>;

const PEERS: Readonly<Record<Peer, string>> = {
  nats: "NATS_URL",
  postgres: "DATABASE_URL",
  relay: "PISTIS_RELAY_URL",
};

/** Resolves when all services serve. */
export async function openStage(options: StageOptions): Promise<Stage> {
  const install = await openServiceProcesses(options);
  const compileCache = await filledCompileCache(join(install.folder, "compile-cache"));
  const services = install.names.filter(isService);
  const environments = await cutEnvironments(install, services, { NODE_COMPILE_CACHE: compileCache });
  const closing = new AbortController();
  const cuts = new Map([...environments].map(([name, { cuts: own }]) => [name, own]));
  const inTurn = oneAtATime();
  const { outages, outage } = openOutages();
  const start = (name: ProcessName) =>
    inTurn(name, () => startUntilReady({ install, options, environments, closing }, name));
  await Promise.all(services.map(start));
  const supervising = supervise({ install, options, start, outage, signal: closing.signal });
  return {
    ...{ install, services, cuts, outages, outage },
    restart: async (name, downMs) => {
      const over = outage(name);
      await inTurn(name, async () => {
        if (install.state(name) !== "ended") await install.kill(name);
        await delay(downMs);
      });
      await start(name);
      over();
    },
    settled: async () => {
      await Promise.all(install.names.map(start));
    },
    close: async () => {
      closing.abort();
      await supervising;
      await install.close();
      for (const own of cuts.values()) for (const cut of own.values()) await cut.close();
    },
  };
}

function openOutages() {
  const outages: Outage[] = [];
  const outage = (name: ProcessName) => {
    const entry = { name, fromMs: Date.now(), untilMs: Number.POSITIVE_INFINITY };
    outages.push(entry);
    return () => {
      entry.untilMs = Date.now();
    };
  };
  return { outages, outage };
}

/** What is done to one process is done in the order in which it was asked for. */
function oneAtATime() {
  const last = new Map<ProcessName, Promise<void>>();
  return (name: ProcessName, work: () => Promise<void>): Promise<void> => {
    const mine = (last.get(name) ?? Promise.resolve()).then(work);
    last.set(
      name,
      mine.catch(() => undefined),
    );
    return mine;
  };
}

export function isService(name: ProcessName): name is ServiceName {
  return name !== "nats-server" && name !== "postgres";
}

type Environments = ReadonlyMap<ServiceName, { cuts: Map<Peer, NetworkCut>; variables: Record<string, string> }>;

/** Starting a service again then takes half the time; one that is killed never writes what it has compiled. */
async function filledCompileCache(folder: string): Promise<string> {
  const modules = ["services", "shared"].map(async (part) =>
    (await readdir(join(ROOT, part), { recursive: true })).map((file) => `${part}/${file}`),
  );
  const opens = (await Promise.all(modules)).flat().filter((file) => OPENS.test(file));
  const imports = opens.map((file) => `import(${JSON.stringify(join(ROOT, file))})`);
  const code = `await Promise.all([${imports.join(", ")}]); process.exit()`;
  const env = { ...process.env, NODE_COMPILE_CACHE: folder };
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", code], { env });
  return folder;
}

/** A file of variables wins over the environment, so what is to go through a cut is taken out of the file. */
async function cutEnvironments(
  install: ServiceProcesses,
  services: readonly ServiceName[],
  common: Record<string, string>,
): Promise<Environments> {
  const folder = join(install.statePath, "env");
  const values = new Map<string, Record<string, string>>();
  for (const file of await readdir(folder)) {
    const lines = (await readFile(join(folder, file), "utf8")).split("\n");
    const own = lines.filter((line) => Object.values(PEERS).some((variable) => line.startsWith(`${variable}=`)));
    values.set(file.replace(/\.env$/, ""), Object.fromEntries(own.map(splitAtEquals)));
    await writeFile(join(folder, file), lines.filter((line) => !own.includes(line)).join("\n"));
  }
  const entries = services.map(async (service) => {
    const own = values.get(service.replace(/-\d+$/, "")) ?? {};
    return [service, await throughCuts(own, common)] as const;
  });
  return new Map(await Promise.all(entries));
}

function splitAtEquals(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}

async function throughCuts(own: Record<string, string>, common: Record<string, string>) {
  const cuts = new Map<Peer, NetworkCut>();
  const variables: Record<string, string> = { ...common, PISTIS_PISTISD: join(ROOT, "dist", "pistisd-faults") };
  for (const peer of ["nats", "postgres", "relay"] as const) {
    const value = own[PEERS[peer]];
    if (value === undefined) continue;
    const url = new URL(value);
    const cut = await openNetworkCut(Number(url.port));
    url.port = String(cut.port);
    cuts.set(peer, cut);
    variables[PEERS[peer]] = peer === "relay" ? url.origin : url.href;
  }
  return { cuts, variables };
}

type Starting = Readonly<{
  install: ServiceProcesses;
  options: StageOptions;
  environments: Environments;
  closing: AbortController;
}>;

async function startUntilReady(
  { install, options, environments, closing }: Starting,
  name: ProcessName,
): Promise<void> {
  for (let attempt = 1; !closing.signal.aborted; attempt++) {
    if (install.state(name) === "ended") {
      const armed = isService(name) ? options.arm(name) : undefined;
      const variables = isService(name) ? environments.get(name)?.variables : undefined;
      await install.launch(name, {
        environment: { ...variables, ...(armed === undefined ? {} : { PISTIS_FAULT_STEP: armed }) },
      });
    }
    const isReady = await install.ready(name).then(
      () => true,
      () => false,
    );
    if (isReady) return;
    if (attempt === STARTS_MAX)
      throw new Error(`${name} does not start:\n${install.lines(name).slice(-20).join("\n")}`);
    await delay(START_AGAIN_MS);
  }
}

type Supervising = Readonly<{
  install: ServiceProcesses;
  options: StageOptions;
  start: (name: ProcessName) => Promise<void>;
  outage: (name: ProcessName) => () => void;
  signal: AbortSignal;
}>;

/** What ends without having been killed from here is told and started again. */
async function supervise({ install, options, start, outage, signal }: Supervising): Promise<void> {
  const starting = new Set<Promise<void>>();
  const revive = async (death: Death) => {
    const over = outage(death.name);
    const atMs = Date.now();
    options.onDeath(death, { atMs, reached: await reachedBy(death) });
    await start(death.name);
    over();
  };
  for (let seen = 0; !signal.aborted; ) {
    for (const death of install.deaths.slice(seen)) {
      seen += 1;
      const again: Promise<void> = revive(death).finally(() => starting.delete(again));
      starting.add(again);
    }
    await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  await Promise.all(starting);
}

/** The step at which it ended. Nothing but SIGKILL ends a process there: a crash just after it is a crash. */
export async function reachedBy({ exit, lastLines }: Pick<Death, "exit" | "lastLines">): Promise<string | undefined> {
  if (exit.signal !== "SIGKILL") return undefined;
  const giveUpAt = performance.now() + LAST_LINE_MS_MAX;
  for (;;) {
    const line = lastLines.slice(-3).findLast((one) => one.startsWith(REACHED));
    if (line !== undefined) return line.slice(REACHED.length).trim();
    if (performance.now() > giveUpAt) return undefined;
    await delay(LOOK_EVERY_MS);
  }
}
