import type { Isolation } from "../provider.ts";
import { type Cgroups, limitedBy } from "./cgroups.ts";

/** Plain words for `pistis doctor` and the documentation. */
export function describeIsolation(cgroups: Cgroups): Isolation {
  const limits = limitedBy(cgroups);
  const whole = [...limits].join(", ");
  return {
    holds: [
      "Own user, process, mount, network, IPC, host-name and control-group namespaces; further user namespaces are off.",
      "No network at all: only a loopback of its own, and the relay through one Unix socket.",
      "No capability, no new privileges, no terminal of the server; a system-call filter.",
      "Read-only programs and libraries of this machine; of /etc only what they need; no home, no /root, /var or /run.",
      "Writable are /workspace, the sandbox's own home, /tmp (1 GiB of memory) and /dev/shm (256 MiB of memory).",
      ...(whole === "" ? [] : [`Limits for the whole sandbox, by control groups: ${whole}.`]),
      ...(limits.has("processes") ? [] : ["A limit on processes, by RLIMIT_NPROC in its own user namespace."]),
      "It is killed with the server.",
    ],
    doesNotHold: [
      "It shares this machine's kernel: a hole in the kernel is a way out. For code that you do not trust use a virtual machine.",
      "It can read all that is under /usr, and the folders in sandboxes.local.readOnly; /proc tells it about the machine's hardware.",
      "Disk space is watched, not reserved: a sandbox over its limit is stopped within seconds, and may go beyond it until then.",
      ...(limits.has("memory") ? [] : ["Memory is limited per process (RLIMIT_DATA), not for the whole sandbox."]),
      ...(limits.has("cpu") ? [] : ["Processor time is not limited."]),
      "What runs in the sandbox can read its own relay pass, and can lie about its own results.",
    ],
  };
}
