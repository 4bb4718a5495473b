// Signals to a process and all that it started, and knowing when they are gone. Linux: it reads /proc.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const LOOK_EVERY_MS = 5;

export function treeOf(root: number): number[] {
  const parents = new Map(allProcesses().map((pid) => [pid, parentOf(pid)]));
  const found = [root];
  for (const pid of found) found.push(...[...parents].flatMap(([child, parent]) => (parent === pid ? [child] : [])));
  return found;
}

/** One that is gone already is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** Kills the process and its children when this process dies, also while they are stopped. Returns how to let go. */
export function guardTree(pid: number): () => void {
  const script = 'cat >/dev/null; kill -KILL $(cat "/proc/$0/task/$0/children") "$0"';
  const guard = spawn("sh", ["-c", script, String(pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  return () => guard.kill("SIGKILL");
}

/** A zombie counts as gone. */
export function isAlive(pid: number): boolean {
  return !/^State:\s+[ZX]/m.test(statusOf(pid));
}

/** A process and no later one that got its number: the kernel gives numbers again within minutes. */
export type Identity = Readonly<{ pid: number; startTicks: string }>;

export function identify(pids: readonly number[]): Identity[] {
  return pids.map((pid) => ({ pid, startTicks: startTicksOf(pid) }));
}

export async function untilGone(members: readonly Identity[]): Promise<void> {
  const remains = ({ pid, startTicks }: Identity) => isAlive(pid) && startTicksOf(pid) === startTicks;
  while (members.some(remains)) await delay(LOOK_EVERY_MS);
}

/** Field 22 of /proc/<pid>/stat; the name before it may hold blanks and brackets. */
function startTicksOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    // It has ended.
    return "";
  }
}

function allProcesses(): number[] {
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s*(\d+)/m.exec(statusOf(pid))?.[1] ?? 0);
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    // It has ended.
    return "State:\tX";
  }
}
