// The daemon and its commands give up system calls that no command needs, whatever filter the container has already: an
// older Docker lets vsock sockets and io_uring through, and vsock reaches the machine below without any network.
import { seccompFilter } from "#shared/system-calls/filter.ts";
import { addressOf, type Libc } from "./libc.ts";

const PR_GET_NO_NEW_PRIVS = 39;
const SET_MODE_FILTER = 1n;
/** For every thread of the daemon, not for the calling one alone. */
const FLAG_TSYNC = 1n;
/** seccomp(2), by architecture. */
const SECCOMP: Readonly<Record<string, bigint>> = { x64: 317n, arm64: 277n };

/**
 * For good: children have it too. Only where privileges cannot be gained anyway, as in every sandbox; on a machine of
 * one's own commands may still use sudo. Throws where the kernel refuses.
 */
export function filterSystemCalls(libc: Libc): void {
  if (libc.prctl(PR_GET_NO_NEW_PRIVS, 0n, 0n, 0n, 0n) !== 1) return;
  const filter = seccompFilter(process.arch);
  const call = SECCOMP[process.arch];
  if (filter === undefined || call === undefined) return;
  // struct sock_fprog: how many instructions of eight bytes, and where.
  const program = new BigUint64Array([BigInt(filter.byteLength / 8), BigInt(addressOf(filter))]);
  const outcome = libc.syscall(call, SET_MODE_FILTER, FLAG_TSYNC, addressOf(program));
  if (outcome !== 0) throw new Error("The kernel takes no system-call filter");
}
