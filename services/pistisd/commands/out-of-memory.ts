// Whether the kernel killed something for want of memory, as far as the sandbox can see its own limits (C79).
import { readFileSync } from "node:fs";

const COUNTERS = [
  "/sys/fs/cgroup/memory.events",
  "/sys/fs/cgroup/memory.events.local",
  "/sys/fs/cgroup/memory/memory.oom_control",
  "/proc/vmstat",
];

/** How often it happened so far; 0 where it cannot be told. */
export function outOfMemoryKills(): number {
  for (const path of COUNTERS) {
    const found = /^oom_kill (\d+)$/m.exec(readOrEmpty(path));
    if (found?.[1] !== undefined) return Number(found[1]);
  }
  return 0;
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if (error instanceof Error && "code" in error) return "";
    throw error;
  }
}
