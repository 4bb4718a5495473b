// Descriptors that this process got from its own parent and that its children would get too: a supervisor's socket, a
// pipe of a test runner. Node closes in children what it opens itself, but not all that it inherited.
import { readdirSync, readFileSync } from "node:fs";

/** O_CLOEXEC as Linux prints it. */
const CLOSED_IN_CHILDREN = 0o2000000;

export function inheritedDescriptors(): number[] {
  return readdirSync("/proc/self/fd").map(Number).filter(isInherited);
}

function isInherited(descriptor: number): boolean {
  try {
    const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & CLOSED_IN_CHILDREN) === 0;
  } catch (error) {
    // The descriptor with which the folder was listed is gone by now.
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}
