// The Docker engine that sandboxes would run on: whether it is there, and what it can give them.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { Environment } from "#shared/config/interpolate.ts";
import { readConfig } from "#shared/config/read-config.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { rangeOf } from "#shared/network/subnets.ts";
import { dockerReadiness, type EngineFacts, factsOf } from "../dev/check-docker.ts";
import { configFileIn } from "../dev/config-file.ts";
import { type Check, missing, ok, warn } from "./check.ts";

type Sandboxes = PistisConfig["sandboxes"];

const VERSION_MIN = [20, 10] as const;
/** Addresses of one sandbox's network. */
const NETWORK_SIZE = 8;
const ENGINE_NETWORKS = 30;

export async function checkDocker(
  option: string | undefined,
  cwd: string,
  environment: Environment,
): Promise<readonly Check[]> {
  // What is wrong with the file is said by a line of its own.
  const config = await configFileIn(option, cwd)
    .then((file) => readConfig(file, environment))
    .catch(() => undefined);
  return config === undefined ? [] : checkEngine(config.sandboxes);
}

export async function checkEngine(sandboxes: Sandboxes): Promise<readonly Check[]> {
  const { docker, provider, image } = sandboxes;
  // Where sandboxes need not be Docker's, they are local ones.
  const lacking = provider === "docker" ? missing : warn;
  const start = `Start Docker, or set sandboxes.docker.host; ${provider === "docker" ? "or" : "nothing to do for"} sandboxes.provider local`;
  const { answers, ready, why } = await dockerReadiness(sandboxes);
  if (!answers) return [lacking("Docker", why, start)];
  try {
    const facts = await factsOf(docker.host);
    const fetch = image === undefined ? "npm run images" : `docker pull ${image}, or build it, on the Docker host`;
    return [
      checkVersion(facts, docker.host),
      ready ? ok("Docker image", why) : lacking("Docker image", why, fetch),
      ...checkFacts(facts),
      checkNetworks(docker.subnets),
    ];
  } catch (error) {
    const { message, next } = failureOf(error);
    return [lacking("Docker", message, next ?? start)];
  }
}

function checkVersion({ version }: EngineFacts, host: string): Check {
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  const isOld = major < VERSION_MIN[0] || (major === VERSION_MIN[0] && minor < VERSION_MIN[1]);
  const found = `${version} at ${host}`;
  return isOld ? warn("Docker", `${found}, too old`, "Install Docker 20.10 or later") : ok("Docker", found);
}

/** What the engine says of itself. Pure. */
export function checkFacts(facts: EngineFacts): Check[] {
  const { limits, driver, cgroupVersion } = facts;
  const lacks = Object.entries(limits).flatMap(([name, has]) => (has ? [] : [name]));
  const groups = `control groups v${cgroupVersion}`;
  const cgroupNext =
    lacks.join() === "swap"
      ? "Start the host's kernel with swapaccount=1, or without swap"
      : "Start the host's kernel with cgroup_enable=memory swapaccount=1, and Docker not rootless without delegation";
  const diskNext =
    "A full disk is the host's: give Docker's data-root a file system of its own, or use its storage driver btrfs or zfs";
  const filterNext = "Start dockerd without --seccomp-profile unconfined, on a kernel with CONFIG_SECCOMP";
  return [
    lacks.length === 0
      ? ok("Docker limits", `memory, swap, processes, processor time, by ${groups}`)
      : warn("Docker limits", `${groups} cannot limit: ${lacks.join(", ")}`, cgroupNext),
    facts.reservesDisk
      ? ok("Docker disks", `${driver}: a sandbox's disk has a size`)
      : warn("Docker disks", `${driver}: use is watched and not reserved`, diskNext),
    facts.seccomp
      ? ok("Docker seccomp", "a system-call filter is on")
      : warn("Docker seccomp", "no system-call filter", filterNext),
    facts.mapsUsers
      ? ok("Docker users", "mapped: no user of a sandbox is one of the host")
      : ok("Docker users", "not mapped (userns-remap): each sandbox is a user of its own, and none is root"),
  ];
}

/** Only sandboxes with internet have a network. Pure. */
export function checkNetworks(subnets: string): Check {
  const next =
    'Set sandboxes.docker.subnets to a range of its own, or "default-address-pools" in /etc/docker/daemon.json';
  if (subnets === "engine") {
    return warn("Docker networks", `Docker's own pools: about ${ENGINE_NETWORKS} sandboxes with internet`, next);
  }
  const { first, last } = rangeOf(subnets) ?? { first: 0, last: -1 };
  const count = Math.floor((last - first + 1) / NETWORK_SIZE);
  const found = `${subnets}: ${count} sandboxes with internet`;
  return count < ENGINE_NETWORKS ? warn("Docker networks", found, next) : ok("Docker networks", found);
}
