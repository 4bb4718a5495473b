// A fork bomb may take every process that the sandbox is allowed but a few: the daemon needs threads to go on. The
// limit counts per user, so commands get a lower one than the daemon's own.
import { addressOf, type Libc } from "./libc.ts";

const RLIMIT_NPROC = 6;
/** What is the daemon's alone. Providers allow so many more than what commands are to have. */
const RESERVED_PROCESSES = 64n;
/** The kernel's own limit on process ids: what is above it is no limit. */
const PIDS_MAX = 4_194_304n;

/**
 * Spawns under the lower limit: a child has it from its first moment on, and cannot raise it once it is told apart.
 * Only spawns where the daemon itself has no limit, or hardly any. Throws what `spawn` throws; with EAGAIN commands
 * have used up what they may have.
 */
export function openProcessLimit(libc: Libc): (spawn: () => number) => number {
  const own = new BigUint64Array(2);
  if (libc.prlimit(0, RLIMIT_NPROC, 0n, addressOf(own)) !== 0) return (spawn) => spawn();
  const [soft = 0n, hard = 0n] = own;
  if (soft > PIDS_MAX || soft < 2n * RESERVED_PROCESSES) return (spawn) => spawn();
  const lowered = soft - RESERVED_PROCESSES;
  const set = (pid: number, limits: BigUint64Array) => libc.prlimit(pid, RLIMIT_NPROC, addressOf(limits), 0n);
  const normal = new BigUint64Array([soft, hard]);
  const whileSpawning = new BigUint64Array([lowered, hard]);
  const forCommands = new BigUint64Array([lowered, lowered]);
  return (spawn) => {
    set(0, whileSpawning);
    try {
      const pid = spawn();
      // It fails only when the command has ended already.
      set(pid, forCommands);
      return pid;
    } finally {
      set(0, normal);
    }
  };
}
