// Who belongs to a command. Its shell leads a session, so most descendants are found by session or group. One
// that made a session of its own is found by its parents or by the mark in its environment, and an orphan
// that cleared its environment too is still a child of the daemon, which adopts orphans.
import { readdirSync, readFileSync } from "node:fs";
import { CALL_MARK } from "./environment.ts";

export type Process = Readonly<{
  pid: number;
  parent: number;
  group: number;
  session: number;
  zombie: boolean;
  /** Clock ticks after the machine's start. */
  startTicks: number;
}>;

export type Family = Readonly<{
  /** The shell's process id, which is its session and group too. */
  leader: number;
  mark: string;
  startTicks: number;
  /** Whether a process that started then can be of no other command. */
  isAlone: (startTicks: number) => boolean;
}>;

/** All processes that this namespace shows. Those that end meanwhile are left out. */
export function listProcesses(): Process[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^[0-9]+$/.test(name)) return [];
    const found = readProcess(Number(name));
    return found === undefined ? [] : [found];
  });
}

export function readProcess(pid: number): Process | undefined {
  const stat = readOrNothing(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The program's name stands in parentheses and may hold anything, also parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const number = (index: number) => Number(fields[index] ?? 0);
  return {
    pid,
    zombie: fields[0] === "Z" || fields[0] === "X",
    parent: number(1),
    group: number(2),
    session: number(3),
    startTicks: number(19),
  };
}

/** The living processes of a command, whatever they did to leave it. */
export function membersOf(family: Family, all: readonly Process[] = listProcesses()): Process[] {
  const members = new Map<number, Process>();
  for (const process of all) {
    if (isDirectMember(family, process)) members.set(process.pid, process);
  }
  addDescendants(members, all);
  return [...members.values()].filter((process) => !process.zombie);
}

function isDirectMember(family: Family, process: Process): boolean {
  if (process.session === family.leader || process.group === family.leader || process.pid === family.leader)
    return true;
  if (process.zombie) return false;
  const mark = markOf(process.pid);
  return mark === undefined ? isUnmarkedOrphan(family, process) : mark === family.mark;
}

function isUnmarkedOrphan(family: Family, orphan: Process): boolean {
  if (orphan.parent !== process.pid || orphan.startTicks < family.startTicks) return false;
  return family.isAlone(orphan.startTicks);
}

function addDescendants(members: Map<number, Process>, all: readonly Process[]): void {
  for (let grown = true; grown; ) {
    grown = false;
    for (const process of all) {
      if (members.has(process.pid) || !members.has(process.parent)) continue;
      members.set(process.pid, process);
      grown = true;
    }
  }
}

/** The mark that the daemon put into the environment with which a process started. */
export function markOf(pid: number): string | undefined {
  const environment = readOrNothing(`/proc/${pid}/environ`);
  const entry = environment?.split("\0").find((each) => each.startsWith(`${CALL_MARK}=`));
  return entry?.slice(CALL_MARK.length + 1);
}

/** Processes of an earlier start of the daemon: nobody can reach them any more. */
export function endLeftovers(markPrefix: string): void {
  for (const { pid } of listProcesses()) {
    if (markOf(pid)?.startsWith(markPrefix) === true) sendSignal(pid, "SIGKILL");
  }
}

/** Own children, adopted ones too. Undefined where the kernel does not tell. */
export function ownChildren(): number[] | undefined {
  const text = readOrNothing("/proc/thread-self/children");
  return text?.split(" ").filter(Boolean).map(Number);
}

/** False: there is no such process (any more). */
export function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ESRCH" || error.code === "EPERM")) return false;
    throw error;
  }
}

/** The processes may end between being listed and being read. */
function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if (error instanceof Error && "code" in error) return undefined;
    throw error;
  }
}
