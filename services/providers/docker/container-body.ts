// What a container is asked to be. docker-proxy checks the same shapes from its side.

import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { PISTISD_TARGET, RELAY_TARGET } from "#shared/docker/names.ts";
import type { StartSandbox } from "../provider.ts";
import type { Docker } from "./docker.ts";
import { GUEST_HOME, GUEST_NAME, guestUid } from "./guest-user.ts";
import { roleLabels, sandboxLabels } from "./names.ts";

const MIB = 1024 * 1024;
/** pistisd keeps so many for itself, so that a fork bomb does not end it: services/pistisd/native/process-limit.ts. */
const DAEMON_PROCESSES = 64;

export const PISTISD_STATE = "/var/lib/pistisd";
export const JOIN_TOKEN_FILE = `${PISTISD_STATE}/join-token`;

type Made = Readonly<{ imageId: string; volume: string }>;

/** `network`: the sandbox's own one, or undefined for none at all. */
export function sandboxBody(docker: Docker, request: StartSandbox, made: Made & { network: string | undefined }) {
  const uid = guestUid(docker, request.sandboxId);
  return {
    Image: made.imageId,
    Entrypoint: [`${PISTISD_TARGET}/pistisd-entry`],
    Cmd: [],
    User: `${uid}:${uid}`,
    WorkingDir: "/",
    Hostname: "sandbox",
    Env: environment(request),
    Labels: sandboxLabels(docker.key, request),
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    Tty: false,
    OpenStdin: false,
    HostConfig: {
      Mounts: [pistisdMount(made.volume, true), relayMount(docker)],
      ...networking(docker, made.network),
      ...limits(docker, request),
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      IpcMode: "private",
      CgroupnsMode: "private",
      // pistisd is process 1: it reaps, and `kill -9 -1` in the sandbox does not reach it.
      Init: false,
      RestartPolicy: { Name: "no" },
      // What the sandbox's processes say lands on the host's disk.
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
    },
  };
}

/** Never started: it is there to put files into the volume and to read the image's. */
export function fillerBody(key: string, { imageId, volume }: Made) {
  return {
    Image: imageId,
    Entrypoint: ["/bin/false"],
    Cmd: [],
    Labels: roleLabels(key, "filler"),
    HostConfig: {
      NetworkMode: "none",
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Mounts: [pistisdMount(volume, false)],
    },
  };
}

/** The image's own PATH stays. The join token is not here: `docker inspect` and /proc/1/environ show all of it. */
function environment({ sandboxId, spec: { network } }: StartSandbox): string[] {
  const variables = {
    HOME: GUEST_HOME,
    USER: GUEST_NAME,
    LOGNAME: GUEST_NAME,
    LANG: "C.UTF-8",
    PISTIS_RELAY_URL: `unix:${RELAY_TARGET}/${relaySocketName(sandboxId)}`,
    PISTIS_JOIN_TOKEN_FILE: JOIN_TOKEN_FILE,
    PISTISD_STATE,
    // With `open` it has an interface of its own.
    ...(network.mode === "allow" ? { PISTIS_EGRESS: "1" } : {}),
  };
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`);
}

function networking({ docker }: Docker, network: string | undefined) {
  if (network === undefined) return { NetworkMode: "none" };
  return { NetworkMode: network, ...(docker.dns.length === 0 ? {} : { Dns: docker.dns }) };
}

function limits({ docker, facts }: Docker, { spec }: StartSandbox) {
  const { memoryMiB, cpuCores, processesMax, diskMiB } = spec;
  return {
    Memory: memoryMiB * MIB,
    MemorySwap: memoryMiB * MIB,
    NanoCpus: Math.round(cpuCores * 1_000_000_000),
    PidsLimit: processesMax + DAEMON_PROCESSES,
    ShmSize: Math.min(docker.shmMiB, memoryMiB) * MIB,
    // A core dump would go where the host's kernel is set to put it.
    Ulimits: [{ Name: "core", Soft: 0, Hard: 0 }],
    ...(facts.reservesDisk ? { StorageOpt: { size: `${diskMiB}M` } } : {}),
  };
}

function pistisdMount(volume: string, readOnly: boolean) {
  return {
    Type: "volume",
    Source: volume,
    Target: PISTISD_TARGET,
    ReadOnly: readOnly,
    VolumeOptions: { NoCopy: true },
  };
}

function relayMount({ docker, relaySocketFolder }: Docker) {
  const about = { Target: RELAY_TARGET, ReadOnly: true };
  const { relayVolume } = docker;
  if (relayVolume !== undefined) {
    return { Type: "volume", Source: relayVolume, ...about, VolumeOptions: { NoCopy: true } };
  }
  return { Type: "bind", Source: relaySocketFolder, ...about, BindOptions: { Propagation: "rprivate" } };
}
