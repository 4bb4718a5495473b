// A process, told apart from a later one with the same id by when it started.
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

export type ProcessIdentity = Readonly<{ pid: number; startTicks: string }>;

const GONE_POLL_MS = 2;

/** Clock ticks from boot to the process's start; undefined when there is no such process or only its zombie. */
export async function startTicksOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (stat === undefined) return undefined;
  // The name in parentheses may hold anything, also spaces and parentheses: fields are counted after its end.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

export async function isAlive({ pid, startTicks }: ProcessIdentity): Promise<boolean> {
  return (await startTicksOf(pid)) === startTicks;
}

/** SIGKILL, unless the id belongs to another process by now. */
export async function killProcess(identity: ProcessIdentity): Promise<void> {
  if (!(await isAlive(identity))) return;
  try {
    process.kill(identity.pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** The kernel tells only a parent when a process is gone; for somebody else's there is no event to wait for. */
export async function untilGone(identity: ProcessIdentity): Promise<void> {
  while (await isAlive(identity)) await pause(GONE_POLL_MS);
}

/** Processes one of whose arguments fits. */
export async function processesWithArgument(fits: (argument: string) => boolean): Promise<ProcessIdentity[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      const startTicks = line.split("\0").some(fits) ? await startTicksOf(pid) : undefined;
      return startTicks === undefined ? [] : [{ pid, startTicks }];
    }),
  );
  return found.flat();
}
