// What a provider that died left on a real engine, as the next one finds it; and what stands in a provider's way.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { installKey } from "#shared/docker/names.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { contractSpec, startRequest } from "../provider.contract.ts";
import type { SandboxProvider, StartSandbox } from "../provider.ts";
import type { DockerSetting } from "./docker.ts";
import { openDockerProvider } from "./docker-provider.ts";
import { readPistisdFiles } from "./image/pistisd-files.ts";
import { pistisdVolumeName, refLabels, roleLabels, sandboxName } from "./names.ts";
import { DEBIAN, type DockerGuests, idsOf, leftOf, openDockerGuests } from "./testing/docker-guests.ts";

const SANDBOXES = 4;

describe("a Docker provider after a crash", function () {
  this.timeout(180_000);
  let guests: DockerGuests;
  let opened: SandboxProvider[];
  let children: ChildProcess[];
  beforeEach(async () => {
    guests = await openDockerGuests();
    opened = [];
    children = [];
  });
  afterEach(async () => {
    for (const child of children) await killed(child);
    for (const provider of opened) await provider.close();
    await guests.dispose();
  });

  const next = async (changes: Partial<DockerSetting> = {}) => {
    const provider = await openDockerProvider({ ...guests.setting, ...changes });
    opened.push(provider);
    return provider;
  };
  const labelArguments = (labels: Readonly<Record<string, string>>) =>
    Object.entries(labels).flatMap(([name, value]) => ["--label", `${name}=${value}`]);

  for (const moment of [0, 1, SANDBOXES - 1]) {
    it(`C59: killed with ${moment} of ${SANDBOXES} sandboxes made, leaves no orphan and no second container`, async () => {
      const requests = Array.from({ length: SANDBOXES }, () => startRequest());
      await killedAfter(guests, { children, requests, created: moment });
      const provider = await next();
      await Promise.all(requests.map((request) => provider.create(request)));
      for (const { sandboxId } of requests) {
        expect(await idsOf(guests.cli, guests.setting.installId, sandboxId)).to.have.lengthOf(1);
      }
      expect((await provider.list()).map(({ state }) => state)).to.deep.equal(requests.map(() => "running"));
      await Promise.all(requests.map((request) => provider.destroy(request)));
      expect(await leftOf(guests.cli, guests.setting.installId)).to.deep.equal([]);
    });
  }

  it("does not start again what the one before has started for the same task", async () => {
    const request = startRequest();
    const restart = { ...request, taskId: newId("task") };
    await guests.provider.create(request);
    await guests.provider.restart(restart);
    await guests.run(request.sandboxId, "echo kept > /dev/shm/in-memory");
    const provider = await next();
    await provider.restart(restart);
    await provider.create(request);
    expect(await guests.run(request.sandboxId, "cat /dev/shm/in-memory")).to.equal("kept\n");
    await provider.restart({ ...request, taskId: newId("task") });
    expect(await guests.run(request.sandboxId, "ls /dev/shm")).to.equal("");
  });

  it("C62: removes what belongs to no sandbox, by label, and nothing of another install", async () => {
    const { cli, setting } = guests;
    const key = installKey(setting.installId);
    const otherKey = installKey(`${setting.installId}-other`);
    const older = startRequest();
    for (const [owner, left] of [
      [key, older],
      [otherKey, startRequest()],
    ] as const) {
      const gone = { ...left, sandboxId: newId("sandbox") };
      for (const generation of [1, 2]) {
        const ref = { ...left, generation };
        const name = ["--name", sandboxName(owner, ref)];
        await cli(
          "create",
          "--network",
          "none",
          ...name,
          ...labelArguments(refLabels(owner, "sandbox", ref)),
          DEBIAN,
          "true",
        );
      }
      await cli("create", "--network", "none", ...labelArguments(roleLabels(owner, "filler")), DEBIAN, "true");
      await cli(
        "network",
        "create",
        "--internal",
        ...labelArguments(refLabels(owner, "network", gone)),
        sandboxName(owner, gone),
      );
      await cli(
        "volume",
        "create",
        ...labelArguments(refLabels(owner, "start", gone)),
        `${sandboxName(owner, gone)}-tsk_1`,
      );
    }
    const before = await leftOf(cli, `${setting.installId}-other`);
    const provider = await next();
    // It makes a filler of its own when it starts, and waits for its end.
    await provider.close();
    expect(await leftOf(cli, setting.installId)).to.deep.equal([sandboxName(key, { ...older, generation: 2 })]);
    expect(before).to.have.lengthOf(5);
    expect(await leftOf(cli, `${setting.installId}-other`)).to.deep.equal(before);
  });

  it("fills pistisd's volume again when it was left half filled", async () => {
    const { cli, setting } = guests;
    const { digest } = await readPistisdFiles(setting.pistisdFolder);
    const installId = `${setting.installId}-other`;
    const key = installKey(installId);
    const volume = pistisdVolumeName(key, digest);
    await cli("volume", "create", ...labelArguments(roleLabels(key, "pistisd")), volume);
    const half = "printf '#!/bin/sh\\nexit 1\\n' > /v/pistisd-entry; chmod 755 /v/pistisd-entry";
    await cli("run", "--rm", "--network", "none", "-v", `${volume}:/v`, DEBIAN, "sh", "-c", half);
    const provider = await next({ installId });
    const request = startRequest();
    await provider.create(request);
    const [id = ""] = await idsOf(cli, installId, request.sandboxId);
    expect(await cli("exec", id, "sh", "-c", "ls -A /opt/pistis; wc -c < /proc/1/cmdline")).to.contain(".complete");
    expect((await provider.inspect(request)).state).to.equal("running");
  });

  it("tells of a sandbox that ended while nobody looked, and of one whose container was removed", async () => {
    const [stopped, removed] = [startRequest(), startRequest()];
    await guests.provider.create(stopped);
    await guests.provider.create(removed);
    await guests.crash(stopped.sandboxId);
    const provider = await next();
    expect((await provider.inspect(stopped)).state).to.equal("stopped");
    const ended = new Promise((resolve) => provider.watch(resolve));
    await guests.cli("rm", "-f", await guests.container(removed.sandboxId));
    expect(await ended).to.include({ sandboxId: removed.sandboxId, state: "missing" });
  });

  it("stops its sandboxes at its end where they are to end with it", async () => {
    const request = startRequest();
    const provider = await openDockerProvider({ ...guests.setting, stopAtClose: true });
    await provider.create(request);
    await provider.close();
    expect((await guests.provider.inspect(request)).state).to.equal("stopped");
  });
});

describe("a Docker provider that cannot go on", function () {
  this.timeout(60_000);
  let guests: DockerGuests;
  before(async () => {
    guests = await openDockerGuests();
  });
  after(() => guests.dispose());

  const failure = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  it("S30, C125: says how to get an image that is not there, and pulls none", async () => {
    const spec = { ...contractSpec, image: "pistis-none.example/none:1" };
    const request = startRequest({ spec });
    const error = await failure(guests.provider.create(request));
    expect(error).to.be.instanceOf(Refusal).with.property("code", "image_missing");
    expect(error).to.have.property("next").that.contains("docker pull pistis-none.example/none:1");
    expect(await idsOf(guests.cli, guests.setting.installId, request.sandboxId)).to.deep.equal([]);
  });

  it("says that Docker does not answer, and what to do", async () => {
    const docker = { ...guests.setting.docker, host: `unix://${join(guests.folder, "none.sock")}` };
    const error = await failure(openDockerProvider({ ...guests.setting, docker }));
    expect(error).to.be.instanceOf(Retryable).with.property("code", "docker_unreachable");
    expect(error).to.have.property("next").that.contains("systemctl start docker");
  });

  it("says that pistisd was not built", async () => {
    const error = await failure(openDockerProvider({ ...guests.setting, pistisdFolder: join(guests.folder, "none") }));
    expect(error).to.be.instanceOf(Refusal).with.property("code", "pistisd_missing");
  });
});

async function killedAfter(
  { setting: { log: _log, ...setting } }: DockerGuests,
  { children, requests, created }: { children: ChildProcess[]; requests: StartSandbox[]; created: number },
): Promise<void> {
  const script = join(import.meta.dirname, "testing", "create-sandboxes.ts");
  const child = spawn(process.execPath, [script, JSON.stringify({ setting, requests })], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  let seen = -1;
  for await (const _ of createInterface({ input: child.stdout })) if (++seen === created) break;
  await killed(child);
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
  child.stdin?.destroy();
  child.stdout?.destroy();
}
