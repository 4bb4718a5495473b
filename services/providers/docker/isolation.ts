import type { Isolation } from "../provider.ts";
import type { Docker } from "./docker.ts";

/** Plain words for `pistis doctor` and the documentation. */
export function describeIsolation({ facts, docker }: Pick<Docker, "facts" | "docker">): Isolation {
  const { limits } = facts;
  const limited = [
    ...(limits.memory ? ["memory"] : []),
    ...(limits.processes ? ["processes"] : []),
    ...(limits.cpu ? ["processor time"] : []),
  ];
  const missing = ["memory", "processes", "processor time"].filter((name) => !limited.includes(name));
  return {
    holds: [
      "A container of its own: process, mount, network, IPC, host-name and control-group namespaces.",
      "No network interface but a loopback of its own; the relay through one Unix socket. With sandboxes.internet a private network that no other sandbox is on.",
      "An ordinary user, no capability, no new privileges; core dumps are off.",
      ...(facts.seccomp
        ? ["Docker's default system-call filter, and pistisd's own on top of it: no vsock sockets, no io_uring."]
        : []),
      facts.mapsUsers
        ? "Docker maps users: a number in the sandbox is another one on the host."
        : "Each sandbox is a user of its own, whose number nobody else on the host has.",
      `Limits for the whole sandbox: ${[...limited, `${docker.shmMiB} MiB of /dev/shm`].join(", ")}.`,
      ...(facts.reservesDisk ? ["Its disk has a size."] : []),
      "pistisd and the relay's socket are read-only; what the image holds belongs to root.",
    ],
    doesNotHold: [
      "It shares the Docker host's kernel: a hole in the kernel is a way out.",
      "Whoever may speak to Docker may do anything on its host; pistis docker-proxy lets through what this provider needs and nothing else.",
      ...(facts.reservesDisk
        ? []
        : [
            "Disk space is watched, not reserved: a sandbox over its limit is ended within a minute, and may go beyond it until then.",
          ]),
      ...(facts.seccomp ? [] : ["This Docker has no system-call filter."]),
      ...(missing.length === 0 ? [] : [`This Docker cannot limit: ${missing.join(", ")}.`]),
      ...(facts.limits.memory && !facts.limits.swap
        ? ["Swap is not limited: the host's kernel does not account for it."]
        : []),
      "Packages are the image's: nothing in the sandbox is root, so none can be installed into its system folders.",
      "What runs in the sandbox can read its own relay pass, and can lie about its own results.",
    ],
  };
}
