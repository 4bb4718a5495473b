// One command from its spawn to the end of all that it left behind.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecOutcome } from "#schemas/wire/message.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { COMMAND_ARGUMENT_BYTES_MAX, KILL_PATIENCE_MS, TIMEOUT_GRACE_MS } from "../limits.ts";
import type { System } from "../native/system.ts";
import type { Finished } from "../state/call-records.ts";
import { CALL_MARK } from "./environment.ts";
import { endFamily } from "./killing.ts";
import { outOfMemoryKills } from "./out-of-memory.ts";
import { type Family, membersOf, ownChildren, readProcess, sendSignal } from "./processes.ts";
import type { Spool } from "./spool.ts";

export type CommandRequest = Readonly<{
  callId: string;
  mark: string;
  isAlone: (startTicks: number) => boolean;
  command: string;
  shell: string;
  cwd: string;
  environment: Readonly<Record<string, string>>;
  timeoutMs: number;
  background: boolean;
}>;

export type Call = Readonly<{
  callId: string;
  command: string;
  startedAt: Date;
  background: boolean;
  family: Family;
  spool: Spool;
  /** The shell ended, or was given up. */
  shellEnded: Promise<Finished>;
  /** Nothing of the command is there any more and its output is complete. */
  over: Promise<void>;
  /** Ends all of it. Resolves when nothing is left or patience is over. */
  stop: (graceMs: number) => Promise<void>;
}>;

type Exit = { exitCode: number | null; signal: string | null };
type Ended = { why: "timeout" | "stop" } | undefined;

/** Throws what the spawn throws: then nothing of the command ran. */
export function startCall(system: System, request: CommandRequest, spool: Spool): Call {
  const startedAt = new Date();
  const oomBefore = outOfMemoryKills();
  const exited = Promise.withResolvers<Exit>();
  const outputOver = Promise.withResolvers<void>();
  let outputIsOver = false;
  const spawned = system.spawn({
    arguments: shellArguments(request, spool.path),
    cwd: request.cwd,
    environment: { ...request.environment, [CALL_MARK]: request.mark },
    onExit: (exitCode, signal) => exited.resolve({ exitCode, signal }),
    onOutput: (bytes) => spool.append(bytes),
    onOutputEnd: () => {
      outputIsOver = true;
      spool.wake();
      outputOver.resolve();
    },
  });
  const startTicks = readProcess(spawned.pid)?.startTicks ?? 0;
  const family: Family = { leader: spawned.pid, mark: request.mark, startTicks, isAlone: request.isAlone };
  const ending = endings(family, exited);
  const timer = request.background
    ? undefined
    : setTimeout(() => void ending.end("timeout", TIMEOUT_GRACE_MS), request.timeoutMs);
  const shellEnded = exited.promise.then(async (exit): Promise<Finished> => {
    clearTimeout(timer);
    await ending.finished();
    // What was written before the shell ended belongs to the answer, also while something else keeps the pipe (C69).
    spawned.readNow();
    const outcome = outcomeOf(exit, ending.why(), request.timeoutMs, oomBefore);
    const durationMs = Date.now() - startedAt.getTime();
    return { outcome, outputBytes: spool.totalBytes, durationMs, leftRunning: isLeftRunning(family, outputIsOver) };
  });
  return {
    callId: request.callId,
    command: request.command,
    startedAt,
    background: request.background,
    family,
    spool,
    shellEnded,
    over: Promise.all([shellEnded, outputOver.promise]).then(() => undefined),
    stop: (graceMs) => ending.end("stop", graceMs),
  };
}

/** A long text does not fit into an argument, so the shell reads it from a file. */
function shellArguments(request: CommandRequest, spoolPath: string): string[] {
  if (Buffer.byteLength(request.command) <= COMMAND_ARGUMENT_BYTES_MAX) return [request.shell, "-c", request.command];
  const script = `${spoolPath}.sh`;
  writeFileSync(script, request.command, { mode: 0o600 });
  return [request.shell, "-c", '. "$1"', request.shell, script];
}

function endings(family: Family, exited: PromiseWithResolvers<Exit>) {
  let ended: Ended;
  let finished = Promise.resolve();
  return {
    why: () => ended,
    /** The shell may end before the rest of what is being ended. */
    finished: () => finished,
    end: (why: "timeout" | "stop", graceMs: number) => {
      ended ??= { why };
      finished = endFamily(family, graceMs).then(() => {
        // A shell that even KILL does not end (it hangs in the kernel) is given up, not waited for.
        setTimeout(() => exited.resolve({ exitCode: null, signal: "SIGKILL" }), KILL_PATIENCE_MS).unref();
      });
      return finished;
    },
  };
}

function isLeftRunning(family: Family, outputIsOver: boolean): boolean {
  if (!outputIsOver || sendSignal(-family.leader, 0)) return membersOf(family).length > 0;
  const children = ownChildren();
  return children !== undefined && children.length === 0 ? false : membersOf(family).length > 0;
}

function outcomeOf(exit: Exit, ended: Ended, timeoutMs: number, oomBefore: number): ExecOutcome {
  if (ended?.why === "timeout") return { status: "timed-out", timeoutMs };
  if (ended?.why === "stop") return { status: "stopped" };
  const killed = exit.signal === "SIGKILL" || exit.exitCode === 137;
  const outOfMemory = killed && outOfMemoryKills() > oomBefore;
  if (outOfMemory) return { status: "signalled", signal: "SIGKILL", outOfMemory };
  if (exit.signal !== null) return { status: "signalled", signal: exit.signal, outOfMemory };
  return { status: "exited", exitCode: exit.exitCode ?? -1 };
}

/** The result of a command that could not be started. */
export function notStarted(error: unknown): Finished {
  const { code, message } = failureOf(error);
  const failure = { code: code === "internal" ? "spawn_failed" : code, message: message.slice(0, 4_000) };
  return { outcome: { status: "failed", failure }, outputBytes: 0, durationMs: 0, leftRunning: false };
}

export function openOutputDirectory(stateDirectory: string): string {
  const directory = join(stateDirectory, "output");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}
