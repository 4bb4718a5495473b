// Everything that a container of a sandbox may not be, one change of a good body at a time.
import { expect } from "chai";
import { LABELS } from "#shared/docker/names.ts";
import { checked } from "../http/checked.ts";
import { Refused } from "../http/refused.ts";
import { fillerTestBody, sandboxTestBody, TEST_KEY, testRelayFolder } from "../testing/bodies.ts";
import { type ContainerRules, fillerBody, sandboxBody } from "./create-body.ts";

const rules: ContainerRules = { key: TEST_KEY, relay: { folder: testRelayFolder, volume: "team_relay" } };

type Json = Readonly<Record<string, unknown>>;

const inHost = (changes: Json): Json => ({
  ...sandboxTestBody(),
  HostConfig: { ...sandboxTestBody().HostConfig, ...changes },
});
const inBody = (changes: Json): Json => ({ ...sandboxTestBody(), ...changes });

const [pistisdMount, relayMount] = sandboxTestBody().HostConfig.Mounts;
const withMounts = (...mounts: unknown[]) => inHost({ Mounts: mounts });

describe("the body of a sandbox's container", () => {
  it("is passed on as it was understood", () => {
    expect(checked(sandboxBody(rules), sandboxTestBody())).to.deep.equal(sandboxTestBody());
  });

  it("may have its disk limited, name servers and a network of its own", () => {
    const body = inHost({
      StorageOpt: { size: "10240M" },
      Dns: ["192.0.2.53"],
      NetworkMode: `pistis-${TEST_KEY}-sbx_1-g1`,
    });
    expect(checked(sandboxBody(rules), body)).to.deep.equal(body);
  });

  it("may take the relay's socket from the configured volume", () => {
    const relay = {
      Type: "volume",
      Source: "team_relay",
      Target: "/run/pistis",
      ReadOnly: true,
      VolumeOptions: { NoCopy: true },
    };
    const body = withMounts(pistisdMount, relay);
    expect(checked(sandboxBody(rules), body)).to.deep.equal(body);
  });

  /** Whatever the value: these keys are not there. The second column gives the one that would do harm. */
  const foreignHostKeys: Json = {
    Privileged: true,
    privileged: true,
    Binds: ["/:/host"],
    CapAdd: ["SYS_ADMIN"],
    Capabilities: ["CAP_SYS_ADMIN"],
    PidMode: "host",
    UTSMode: "host",
    UsernsMode: "host",
    Cgroup: "container:other",
    CgroupParent: "/",
    Devices: [{ PathOnHost: "/dev/sda", PathInContainer: "/dev/sda", CgroupPermissions: "rwm" }],
    DeviceRequests: [{ Count: -1, Capabilities: [["gpu"]] }],
    DeviceCgroupRules: ["a *:* rwm"],
    VolumesFrom: ["other"],
    VolumeDriver: "other",
    Links: ["other:db"],
    PortBindings: { "80/tcp": [{ HostPort: "80" }] },
    PublishAllPorts: true,
    Runtime: "other",
    Sysctls: { "net.ipv4.ip_forward": "1" },
    OomScoreAdj: -1000,
    OomKillDisable: true,
    GroupAdd: ["0"],
    ExtraHosts: ["registry.example:127.0.0.1"],
    ReadonlyPaths: [],
    MaskedPaths: [],
    ContainerIDFile: "/etc/cron.d/x",
    Tmpfs: { "/run": "exec" },
    AutoRemove: true,
    Isolation: "hyperv",
    CpusetCpus: "0",
    KernelMemoryTCP: 1,
    BlkioWeightDevice: [{ Path: "/dev/sda", Weight: 10 }],
    Annotations: { "io.podman.annotations.privileged": "TRUE" },
    __proto_: {},
  };
  for (const [key, value] of Object.entries(foreignHostKeys)) {
    it(`never has HostConfig.${key}`, () =>
      expectRefused(inHost({ [key]: value }), "key_refused", `HostConfig.${key}`));
  }

  const foreignKeys: Json = {
    ExposedPorts: { "80/tcp": {} },
    Volumes: { "/data": {} },
    NetworkingConfig: { EndpointsConfig: { bridge: {} } },
    NetworkDisabled: false,
    Healthcheck: { Test: ["CMD", "true"] },
    Domainname: "x",
    MacAddress: "02:42:ac:11:00:02",
    OnBuild: ["RUN x"],
    Shell: ["sh"],
    StopSignal: "SIGKILL",
    StdinOnce: true,
    ArgsEscaped: true,
    hostconfig: { Privileged: true },
  };
  for (const [key, value] of Object.entries(foreignKeys)) {
    it(`never has ${key}`, () => expectRefused(inBody({ [key]: value }), "key_refused", key));
  }

  const badHostValues: ReadonlyArray<[string, Json, string?]> = [
    ["the host's network", { NetworkMode: "host" }, "NetworkMode"],
    ["the default bridge", { NetworkMode: "bridge" }, "NetworkMode"],
    ["another container's network", { NetworkMode: "container:other" }, "NetworkMode"],
    ["another install's network", { NetworkMode: "pistis-ffffffffffff-sbx_1-g1" }, "NetworkMode"],
    ["the host's IPC", { IpcMode: "host" }, "IpcMode"],
    ["shared IPC", { IpcMode: "shareable" }, "IpcMode"],
    ["another container's IPC", { IpcMode: "container:other" }, "IpcMode"],
    ["the host's control groups", { CgroupnsMode: "host" }, "CgroupnsMode"],
    ["capabilities that are not dropped", { CapDrop: ["NET_RAW"] }, "CapDrop"],
    ["no dropped capability", { CapDrop: [] }, "CapDrop"],
    ["more than all capabilities dropped", { CapDrop: ["ALL", "NET_RAW"] }, "CapDrop"],
    ["new privileges", { SecurityOpt: [] }, "SecurityOpt"],
    ["new privileges by another spelling", { SecurityOpt: ["no-new-privileges:false"] }, "SecurityOpt"],
    ["no system-call filter", { SecurityOpt: ["no-new-privileges", "seccomp=unconfined"] }, "SecurityOpt"],
    ["no AppArmor", { SecurityOpt: ["no-new-privileges", "apparmor=unconfined"] }, "SecurityOpt"],
    ["no SELinux label", { SecurityOpt: ["no-new-privileges", "label=disable"] }, "SecurityOpt"],
    ["system paths unmasked", { SecurityOpt: ["no-new-privileges", "systempaths=unconfined"] }, "SecurityOpt"],
    ["memory without end", { Memory: 0 }, "Memory"],
    ["swap beyond its memory", { MemorySwap: -1 }, "MemorySwap"],
    ["more swap than memory", { MemorySwap: 2 ** 33 }, "MemorySwap"],
    ["processes without end", { PidsLimit: -1 }, "PidsLimit"],
    ["processors without end", { NanoCpus: 0 }, "NanoCpus"],
    ["a foreign limit", { Ulimits: [{ Name: "memlock", Soft: 1, Hard: 1 }] }, "Ulimits"],
    ["a restart by the engine", { RestartPolicy: { Name: "always" } }, "RestartPolicy"],
    [
      "a log on the network",
      { LogConfig: { Type: "gelf", Config: { "max-size": "1m", "max-file": "1" } } },
      "LogConfig",
    ],
    ["a log without end", { LogConfig: { Type: "json-file", Config: {} } }, "LogConfig"],
    ["a foreign name server", { Dns: ["localhost"] }, "Dns"],
    ["a foreign disk option", { StorageOpt: { size: "0" } }, "StorageOpt"],
  ];
  for (const [what, change, place = ""] of badHostValues) {
    it(`never has ${what}`, () => expectRefused(inHost(change), "value_refused", `HostConfig.${place}`));
  }

  const badMounts: ReadonlyArray<[string, unknown[]]> = [
    ["a folder of the host", [pistisdMount, { ...relayMount, Source: "/" }]],
    ["the folder above the relay's", [pistisdMount, { ...relayMount, Source: "/run" }]],
    ["the relay's folder by another spelling", [pistisdMount, { ...relayMount, Source: `${testRelayFolder}/../..` }]],
    ["the relay's folder to write to", [pistisdMount, { ...relayMount, ReadOnly: false }]],
    ["the relay's folder elsewhere", [pistisdMount, { ...relayMount, Target: "/etc" }]],
    ["mounts that reach the host", [pistisdMount, { ...relayMount, BindOptions: { Propagation: "rshared" } }]],
    ["pistisd's volume to write to", [{ ...pistisdMount, ReadOnly: false }, relayMount]],
    [
      "another install's volume",
      [{ ...pistisdMount, Source: "pistis-ffffffffffff-pistisd-0000000000000000" }, relayMount],
    ],
    ["pistisd from a folder of the host", [{ ...pistisdMount, Type: "bind", Source: "/usr" }, relayMount]],
    ["no pistisd", [relayMount]],
    ["a third mount", [pistisdMount, relayMount, { Type: "tmpfs", Target: "/etc" }]],
    ["the socket of the engine", [pistisdMount, { ...relayMount, Source: "/var/run/docker.sock" }]],
  ];
  for (const [what, mounts] of badMounts) {
    it(`never mounts ${what}`, () => expectRefused(withMounts(...mounts), "value_refused", "HostConfig.Mounts"));
  }

  it("never mounts with an option that makes a volume stand for a folder", () => {
    const driver = { DriverConfig: { Name: "local", Options: { type: "none", o: "bind", device: "/" } } };
    const mount = { ...pistisdMount, VolumeOptions: { NoCopy: true, ...driver } };
    expectRefused(withMounts(mount, relayMount), "key_refused", "HostConfig.Mounts.0.VolumeOptions.DriverConfig");
  });

  const badValues: ReadonlyArray<[string, Json]> = [
    ["root as its user", { User: "0:0" }],
    ["root's group", { User: "1000:0" }],
    ["a user by name", { User: "root" }],
    ["no user", { User: "" }],
    ["another first program", { Entrypoint: ["/bin/sh"] }],
    ["arguments for it", { Cmd: ["-c", "true"] }],
    ["a terminal", { Tty: true }],
    ["open input", { OpenStdin: true }],
    ["a variable over two lines", { Env: ["A=1\nB=2"] }],
    ["an image by a path", { Image: "../../etc/passwd\n" }],
    ["another install's label", { Labels: { ...sandboxTestBody().Labels, [LABELS.install]: "ffffffffffff" } }],
    ["no label of the install", { Labels: { [LABELS.role]: "sandbox" } }],
    ["the role of something else", { Labels: { ...sandboxTestBody().Labels, [LABELS.role]: "filler" } }],
  ];
  for (const [what, change] of badValues) {
    it(`never has ${what}`, () => expectRefused(inBody(change), "value_refused", Object.keys(change).join()));
  }

  it("never has a label of its own", () => {
    const Labels = { ...sandboxTestBody().Labels, "com.docker.compose.project": "team" };
    expectRefused(inBody({ Labels }), "key_refused", "Labels.com.docker.compose.project");
  });

  for (const nothing of [undefined, null, [], "", 1, {}]) {
    it(`is not ${JSON.stringify(nothing)}`, () => {
      expect(() => checked(sandboxBody(rules), nothing)).to.throw(Refused);
    });
  }

  it("mounts no folder and no volume where none is configured", () => {
    const none = sandboxBody({ key: TEST_KEY, relay: { folder: undefined, volume: undefined } });
    expect(() => checked(none, sandboxTestBody()))
      .to.throw(Refused)
      .with.property("rule", "value_refused");
  });
});

describe("the body of a filler's container", () => {
  const refusedFiller = (changes: Json, rule: string) =>
    expect(() => checked(fillerBody(rules), { ...fillerTestBody(), ...changes }))
      .to.throw(Refused)
      .with.property("rule", rule);

  it("is passed on as it was understood", () => {
    expect(checked(fillerBody(rules), fillerTestBody())).to.deep.equal(fillerTestBody());
  });

  it("has nothing that runs, no network and one mount", () => {
    const { HostConfig } = fillerTestBody();
    refusedFiller({ Entrypoint: ["/bin/sh"] }, "value_refused");
    refusedFiller({ HostConfig: { ...HostConfig, NetworkMode: "host" } }, "value_refused");
    refusedFiller({ HostConfig: { ...HostConfig, Mounts: [...HostConfig.Mounts, relayMount] } }, "value_refused");
    refusedFiller({ HostConfig: { ...HostConfig, Binds: ["/:/host"] } }, "key_refused");
    refusedFiller({ HostConfig: { ...HostConfig, Privileged: true } }, "key_refused");
  });
});

function expectRefused(body: unknown, rule: string, place: string): void {
  expect(() => checked(sandboxBody(rules), body))
    .to.throw(Refused, place)
    .with.property("rule", rule);
}
