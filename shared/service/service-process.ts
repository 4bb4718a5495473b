// A service as a process of its own: what it is told, how it starts, and how it ends when it is asked to.
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { z } from "zod";
import type { Environment } from "#shared/config/interpolate.ts";
import { Fatal, failureOf, Refusal } from "#shared/errors/errors.ts";
import { armStep } from "#shared/faults/arm.ts";
import type { NatsUser } from "#shared/nats/keys.ts";
import { readVariables, variableHelp, variables } from "./environment.ts";
import { keepHealthFile, removeHealthFile } from "./health-file.ts";
import type { Log } from "./log.ts";
import { Resources } from "./resources.ts";

/** Longer than any service takes to finish what it has in hand, shorter than the patience of what supervises it. */
const STOP_MS_MAX = 20_000;
const LEFTOVERS_MS_MAX = 2_000;
/** NATS and PostgreSQL may be starting too; whoever supervises a service is told of a longer lack by its end. */
const START_PATIENCE_MS = 60_000;
const START_AGAIN_MS = 250;

/** Everything that is opened is added to `resources`, the service itself last. */
export type Opening = Readonly<{ environment: Environment; log: Log; resources: Resources }>;
/** `url`: where it listens, if it does. */
export type Opened = Readonly<{ url?: string }>;

export type ServiceProcess = Readonly<{
  name: string;
  about: string;
  command: string;
  /** None: it does not speak to NATS. */
  natsUser: NatsUser | undefined;
  /** The variables that it reads; it holds no other. */
  variableNames: readonly string[];
  help: string;
  open: (environment: Environment, resources: Resources) => Promise<Opened>;
}>;

export function serviceProcess<Shape extends z.ZodRawShape>(definition: {
  name: string;
  about: string;
  /** As a person starts it, without `pistis`; the name when absent. */
  command?: string;
  natsUser?: NatsUser;
  variables: Shape;
  open: (settings: z.output<z.ZodObject<Shape>>, opening: Opening) => Promise<Opened>;
}): ServiceProcess {
  const { name, about, natsUser, open } = definition;
  const command = `pistis ${definition.command ?? name}`;
  const { PISTIS_LOG_LEVEL, PISTIS_HEALTH_FILE } = variables;
  const common = { PISTIS_LOG_LEVEL, PISTIS_HEALTH_FILE };
  return {
    name,
    about,
    command,
    natsUser,
    variableNames: Object.keys(definition.variables),
    help: variableHelp({ ...definition.variables, ...common }),
    open: async (environment, resources) => {
      const settings = readVariables(definition.variables, environment, command);
      const host = readVariables(common, environment, command);
      const { openLog } = await import("./log.ts");
      const log = openLog(name, host.PISTIS_LOG_LEVEL);
      const healthFile = host.PISTIS_HEALTH_FILE;
      if (healthFile !== undefined) await removeHealthFile(healthFile);
      const opened = await open(settings, { environment, log, resources });
      if (healthFile !== undefined) await keepHealthFile(healthFile, log, resources);
      return opened;
    },
  };
}

/** What a process offers to the service that runs in it. */
export type Host = Readonly<{
  environment: Environment;
  out: (text: string) => void;
  err: (text: string) => void;
  /** Calls `handle` at each SIGINT or SIGTERM until the returned function is called. */
  onStop: (handle: () => void) => () => void;
  /** How long a server that is away is waited for at the start; a minute when absent. */
  startPatienceMs?: number;
}>;

/**
 * Runs the service until a signal. Prints `ready <name> [url]` on standard output when it serves. Resolves with the exit
 * code: 0 after a stop, 1 when it could not start, did not stop or lost for good what it needs, with the reason and the
 * next step on standard error.
 */
export async function runService(service: ServiceProcess, host: Host): Promise<number> {
  const stop = new AbortController();
  const stopListening = host.onStop(() => stop.abort());
  try {
    armStep(host.environment["PISTIS_FAULT_STEP"]);
    const running = await openPatiently(service, host, stop.signal);
    if (running === undefined) return 0;
    const { url, resources } = running;
    host.out(`ready ${service.name}${url === undefined ? "" : ` ${url}`}\n`);
    const end = AbortSignal.any([stop.signal, resources.broken]);
    if (!end.aborted) await once(end, "abort");
    const isAsked = stop.signal.aborted;
    if (!isAsked) report(service, host, end.reason, "Whoever supervises it starts it again");
    const exitCode = await closed(service, host, resources);
    return isAsked ? exitCode : 1;
  } catch (error) {
    report(service, host, error, "See what was logged before, and that `pistis setup` ran for this NATS and database");
    return 1;
  } finally {
    stopListening();
  }
}

/** Tries again while what is missing may come, and says so once. Undefined when it was stopped meanwhile. */
async function openPatiently(
  service: ServiceProcess,
  host: Host,
  stop: AbortSignal,
): Promise<(Opened & { resources: Resources }) | undefined> {
  const { environment, err, startPatienceMs = START_PATIENCE_MS } = host;
  const giveUpAt = performance.now() + startPatienceMs;
  for (let told: string | undefined; ; ) {
    const resources = new Resources();
    try {
      return { ...(await service.open(environment, resources)), resources };
    } catch (error) {
      await closed(service, host, resources);
      // These would be the same again. Anything else may come of a server that broke off in the middle of the start.
      if (error instanceof Refusal || error instanceof Fatal) throw error;
      if (stop.aborted) return undefined;
      if (performance.now() >= giveUpAt) throw error;
      const { code, next } = failureOf(error);
      if (code !== told) {
        const patience = `it is tried again for ${startPatienceMs / 1_000} s`;
        const advice = next === undefined ? "" : `  next: ${next}\n`;
        err(`${service.command}: ${reasonsOf(error).join(": ")} (${code}); ${patience}\n${advice}`);
      }
      told = code;
      await delay(START_AGAIN_MS, undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) return undefined;
    }
  }
}

async function closed(service: ServiceProcess, host: Host, resources: Resources): Promise<number> {
  try {
    await within(STOP_MS_MAX, resources.close());
    return 0;
  } catch (error) {
    const next = "Nothing is lost: what it could not finish is taken up by another one, or at the next start";
    report(service, host, error, next);
    return 1;
  }
}

function report({ command }: ServiceProcess, { err }: Host, error: unknown, advice: string): void {
  const { code, next } = failureOf(error);
  err(`${command}: ${reasonsOf(error).join(": ")} (${code})\n  next: ${next ?? advice}\n`);
}

/** What failed and why, from the outside in. */
function reasonsOf(error: unknown): string[] {
  const { code, message } = failureOf(error);
  // Our own errors say it all.
  if (code !== "internal") return [message];
  if (error instanceof AggregateError)
    return [message, error.errors.map((part) => reasonsOf(part).join(": ")).join("; ")];
  if (error instanceof Error && error.cause !== undefined) return [message, ...reasonsOf(error.cause)];
  return [message];
}

async function within(timeMs: number, work: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(() => late.reject(new Error(`It did not stop within ${timeMs} ms`)), timeMs);
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}

/** The body of a `main.ts`, which alone has the process: `await runAsMain(brainProcess, process)`. */
export async function runAsMain(service: ServiceProcess, own: NodeJS.Process): Promise<void> {
  own.exitCode = await runService(service, {
    environment: own.env,
    out: (text) => own.stdout.write(text),
    err: (text) => own.stderr.write(text),
    onStop: (handle) => {
      own.on("SIGINT", handle).on("SIGTERM", handle);
      return () => void own.off("SIGINT", handle).off("SIGTERM", handle);
    },
  });
  // Everything is closed by now. Should something have been forgotten, it must not keep the process.
  setTimeout(() => own.exit(), LEFTOVERS_MS_MAX).unref();
}
