// What the daemon needs from Linux beyond Node's API: pipes that are real pipes (a program that opens
// /dev/stderr fails on the sockets that Bun and Node use), orphans that come back to us, and their bodies.

import { dlopen, ptr } from "bun:ffi";
import { closeSync, writeFileSync } from "node:fs";
import { ownChildren, readProcess } from "../commands/processes.ts";

const O_CLOEXEC = 0o2000000;
const PR_SET_CHILD_SUBREAPER = 36n;
const FIONREAD = 0x541bn;
const WNOHANG = 1;

export type SpawnRequest = Readonly<{
  arguments: readonly string[];
  cwd: string;
  environment: Readonly<Record<string, string>>;
  onExit: (exitCode: number | null, signal: string | null) => void;
}>;

/** `output` carries standard output and standard error in the order in which they were written. */
export type Spawned = Readonly<{
  pid: number;
  output: ReadableStream<Uint8Array>;
  /** Bytes that are written and not read yet. */
  unreadBytes: () => number;
  closeOutput: () => void;
}>;

export type System = Readonly<{
  /** The process leads a session and a process group of its own, with nothing to read on standard input. */
  spawn: (request: SpawnRequest) => Spawned;
}>;

/** Memory is short: the kernel shall take a command, not the daemon. Commands hand this on to their children. */
const COMMAND_OOM_SCORE = "500";

export function openSystem(): System {
  const { symbols: libc } = dlopen("libc.so.6", {
    pipe2: { args: ["ptr", "int"], returns: "int" },
    prctl: { args: ["int", "u64", "u64", "u64", "u64"], returns: "int" },
    waitpid: { args: ["int", "ptr", "int"], returns: "int" },
    ioctl: { args: ["int", "u64", "ptr"], returns: "int" },
  });
  libc.prctl(Number(PR_SET_CHILD_SUBREAPER), 1n, 0n, 0n, 0n);

  // The exit status of these is the runtime's to take.
  const spawnedByUs = new Set<number>();
  const reapOrphans = () => {
    for (const pid of ownChildren() ?? []) {
      if (!spawnedByUs.has(pid) && readProcess(pid)?.zombie === true) libc.waitpid(pid, 0n, WNOHANG);
    }
  };
  process.on("SIGCHLD", reapOrphans);
  const openPipe = () => {
    const ends = new Int32Array(2);
    if (libc.pipe2(ptr(ends), O_CLOEXEC) !== 0) throw new Error("No pipe could be opened: too many open files");
    const [readable = -1, writable = -1] = ends;
    return { readable, writable };
  };

  return {
    spawn: (request) => {
      const pipe = openPipe();
      try {
        const pid = spawnInto(pipe.writable, request, (ended) => spawnedByUs.delete(ended));
        spawnedByUs.add(pid);
        offerToOutOfMemory(pid);
        const count = new Int32Array(1);
        return {
          pid,
          output: Bun.file(pipe.readable).stream(),
          unreadBytes: () => (libc.ioctl(pipe.readable, FIONREAD, ptr(count)) === 0 ? (count[0] ?? 0) : 0),
          closeOutput: () => closeSync(pipe.readable),
        };
      } catch (error) {
        closeSync(pipe.readable);
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
