// Bodies as the Docker provider sends them.
import { installKey, LABELS } from "#shared/docker/names.ts";

export const TEST_INSTALL = "docker-proxy-tests";
export const TEST_KEY = installKey(TEST_INSTALL);
export const testRelayFolder = "/run/pistis-relay-of-tests";

const MIB = 1_024 * 1_024;

export const testVolume = (key: string) => `pistis-${key}-pistisd-0123456789abcdef`;

export function sandboxTestBody({ key = TEST_KEY, folder = testRelayFolder, image = "debian:bookworm-slim" } = {}) {
  return {
    Image: image,
    Entrypoint: ["/opt/pistis/pistisd-entry"],
    Cmd: [],
    User: "1000:1000",
    WorkingDir: "/",
    Hostname: "sandbox",
    Env: ["HOME=/home/pistis"],
    Labels: {
      [LABELS.install]: key,
      [LABELS.role]: "sandbox",
      [LABELS.sandbox]: "sbx_1",
      [LABELS.session]: "ses_1",
      [LABELS.generation]: "1",
    },
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    Tty: false,
    OpenStdin: false,
    HostConfig: {
      NetworkMode: "none",
      Mounts: [
        {
          Type: "volume",
          Source: testVolume(key),
          Target: "/opt/pistis",
          ReadOnly: true,
          VolumeOptions: { NoCopy: true },
        },
        {
          Type: "bind",
          Source: folder,
          Target: "/run/pistis",
          ReadOnly: true,
          BindOptions: { Propagation: "rprivate" },
        },
      ],
      Memory: 256 * MIB,
      MemorySwap: 256 * MIB,
      NanoCpus: 1_000_000_000,
      PidsLimit: 256,
      ShmSize: 64 * MIB,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Ulimits: [{ Name: "core", Soft: 0, Hard: 0 }],
      IpcMode: "private",
      CgroupnsMode: "private",
      Init: false,
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
    },
  };
}

export function fillerTestBody({ key = TEST_KEY, image = "debian:bookworm-slim" } = {}) {
  return {
    Image: image,
    Entrypoint: ["/bin/false"],
    Cmd: [],
    Labels: { [LABELS.install]: key, [LABELS.role]: "filler" },
    HostConfig: {
      NetworkMode: "none",
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Mounts: [
        {
          Type: "volume",
          Source: testVolume(key),
          Target: "/opt/pistis",
          ReadOnly: false,
          VolumeOptions: { NoCopy: true },
        },
      ],
    },
  };
}

export function networkTestBody({ key = TEST_KEY, name = "sbx_1-g1", subnet = "10.208.0.0/29" } = {}) {
  return {
    Name: `pistis-${key}-${name}`,
    CheckDuplicate: true,
    Driver: "bridge",
    Internal: false,
    Attachable: false,
    EnableIPv6: false,
    Labels: { [LABELS.install]: key, [LABELS.role]: "network" },
    IPAM: { Driver: "default", Config: [{ Subnet: subnet }] },
    Options: { "com.docker.network.bridge.enable_icc": "false" },
  };
}

export function volumeTestBody({ key = TEST_KEY } = {}) {
  return { Name: testVolume(key), Labels: { [LABELS.install]: key, [LABELS.role]: "pistisd" } };
}
