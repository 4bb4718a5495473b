// What the daemon needs from Linux beyond Node's API: children whose output comes through real pipes, and
// orphans that come back to us and are freed when they end.
import { closeSync, writeFileSync } from "node:fs";
import { ownChildren, readProcess } from "../commands/processes.ts";
import { openLibc } from "./libc.ts";
import { type OutputListener, openOutputPipes } from "./output-pipes.ts";
import { openProcessLimit } from "./process-limit.ts";
import { filterSystemCalls } from "./system-call-filter.ts";

const PR_SET_CHILD_SUBREAPER = 36;
const WNOHANG = 1;
/** Memory is short: the kernel shall take a command, not the daemon. Commands hand this on to their children. */
const COMMAND_OOM_SCORE = "500";

export type SpawnRequest = OutputListener &
  Readonly<{
    arguments: readonly string[];
    cwd: string;
    environment: Readonly<Record<string, string>>;
    onExit: (exitCode: number | null, signal: string | null) => void;
  }>;

export type Spawned = Readonly<{
  pid: number;
  /** Reads what has been written up to now, at least. */
  readNow: () => void;
  /** Ends the reading whoever still writes. */
  closeOutput: () => void;
}>;

export type System = Readonly<{
  /**
   * The process leads a session and a process group of its own, with nothing to read on standard input; standard
   * output and standard error are one pipe. Throws what the spawn throws.
   */
  spawn: (request: SpawnRequest) => Spawned;
}>;

export function openSystem(): System {
  const libc = openLibc();
  filterSystemCalls(libc);
  libc.prctl(PR_SET_CHILD_SUBREAPER, 1n, 0n, 0n, 0n);
  // The exit status of these is the runtime's to take.
  const spawnedByUs = new Set<number>();
  process.on("SIGCHLD", () => {
    for (const pid of ownChildren() ?? []) {
      if (!spawnedByUs.has(pid) && readProcess(pid)?.zombie === true) libc.waitpid(pid, 0n, WNOHANG);
    }
  });
  const pipes = openOutputPipes(libc);
  const limited = openProcessLimit(libc);
  return {
    spawn: (request) => {
      const pipe = pipes.open(request);
      try {
        const pid = limited(() => spawnInto(pipe.writable, request, (ended) => spawnedByUs.delete(ended)));
        spawnedByUs.add(pid);
        offerToOutOfMemory(pid);
        return { pid, readNow: pipe.readNow, closeOutput: pipe.close };
      } catch (error) {
        pipe.close();
        throw error;
      } finally {
        closeSync(pipe.writable);
      }
    },
  };
}

function spawnInto(writable: number, request: SpawnRequest, onEnd: (pid: number) => void): number {
  const { pid } = Bun.spawn({
    cmd: [...request.arguments],
    cwd: request.cwd,
    env: { ...request.environment },
    stdio: ["ignore", writable, writable],
    detached: true,
    onExit: (_, exitCode, signal) => {
      onEnd(pid);
      request.onExit(exitCode, signal === null ? null : String(signal));
    },
  });
  return pid;
}

function offerToOutOfMemory(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, COMMAND_OOM_SCORE);
  } catch (error) {
    // A command that has already ended, or a kernel that does not offer this.
    if (!(error instanceof Error && "code" in error)) throw error;
  }
}
