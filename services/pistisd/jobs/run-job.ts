// A job of this very program in a process of its own: what it does may hang for ever, and nothing but the end of the
// process stops it. It prints one JSON value.
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { CALL_MARK } from "../commands/environment.ts";
import { sendSignal } from "../commands/processes.ts";
import type { System } from "../native/system.ts";

export type JobContext = Readonly<{
  system: System;
  /** How to start this program again. */
  self: readonly string[];
}>;

export type Job = Readonly<{
  name: "probe" | "search";
  argument: string;
  cwd: string;
  environment: Readonly<Record<string, string>>;
  timeoutMs: number;
  outputBytesMax: number;
  signal: AbortSignal;
}>;

/**
 * Resolves to what it printed; undefined when its time was up. Throws Refusal when it was withdrawn or ended in silence,
 * Fatal when it printed more than it may.
 */
export async function runJob({ system, self }: JobContext, job: Job): Promise<string | undefined> {
  const { name, signal, outputBytesMax } = job;
  const ended = Promise.withResolvers<void>();
  const parts: Uint8Array[] = [];
  let size = 0;
  const spawned = system.spawn({
    arguments: [...self, name, job.argument],
    cwd: job.cwd,
    environment: { ...job.environment, [CALL_MARK]: name },
    onExit: () => ended.resolve(),
    onOutput: (bytes) => {
      size += bytes.byteLength;
      if (size <= outputBytesMax) parts.push(bytes.slice());
    },
    onOutputEnd: () => undefined,
  });
  const timedOut = await killUnlessEnded(spawned.pid, ended.promise, job);
  spawned.readNow();
  spawned.closeOutput();
  if (timedOut) return undefined;
  if (signal.aborted) throw new Refusal("cancelled", `The ${name} was withdrawn`);
  if (size === 0) {
    throw new Refusal(`${name}_failed`, `The ${name} ended without a result: the sandbox may lack memory`);
  }
  if (size > outputBytesMax) throw new Fatal(`${name}_output`, `A ${name} printed more than it may`);
  return Buffer.concat(parts).toString("utf8");
}

/** Resolves when it ended: true when it was its time that ended it. */
async function killUnlessEnded(pid: number, ended: Promise<void>, { timeoutMs, signal }: Job): Promise<boolean> {
  const kill = () => sendSignal(pid, "SIGKILL");
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill();
  }, timeoutMs);
  signal.addEventListener("abort", kill);
  await ended;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  return timedOut;
}
