// The Docker provider behind docker-proxy, as a team runs them: every call that it makes is let through, and what holds goes on
// holding when the proxy is killed in the middle of calls.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "chai";
import { startDockerProxy } from "#services/docker-proxy/docker-proxy.ts";
import { poolCheck } from "#services/docker-proxy/networks/pool.ts";
import type { DockerSetting } from "#services/providers/docker/docker.ts";
import { openDockerProvider } from "#services/providers/docker/docker-provider.ts";
import {
  DEBIAN,
  dockerCli,
  guestSetting,
  idsOf,
  leftOf,
  removeInstalls,
} from "#services/providers/docker/testing/docker-guests.ts";
import { describeOneLife, type ProviderUnderTest, startRequest } from "#services/providers/provider.contract.ts";
import type { SandboxProvider, StartSandbox } from "#services/providers/provider.ts";
import { installKey, LABELS } from "#shared/docker/names.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { launch, type Running } from "./testing/processes/program.ts";

const ENGINE_SOCKET = "/var/run/docker.sock";
const POOL = "198.18.78.0/24";
const OTHER_POOL = "198.18.79.0/24";
const SANDBOXES = 3;
const KILLS = 4;
/** A proxy lives for at most so long before it is killed. */
const KILL_MS_MAX = 700;
const AGAIN_MS = 20;
const PATIENCE_MS = 90_000;
const SANDBOX_ROLE = ["--filter", `label=${LABELS.role}=sandbox`];

describe("the Docker provider behind docker-proxy", function () {
  this.timeout(120_000);

  describeOneLife("docker, behind docker-proxy", openBehindProxy);

  it("makes, finds and removes a sandbox with a network of its own", async () => {
    const guests = await openBehindProxy();
    try {
      const request = startRequest();
      await guests.provider.create({ ...request, spec: { ...request.spec, network: { mode: "open" } } });
      const routes = await guests.run(request.sandboxId, "cat /proc/net/route | wc -l");
      expect(Number(routes)).to.be.greaterThan(1);
      await guests.provider.destroy(request);
      expect(await leftOf(cli, guests.setting.installId)).to.deep.equal([]);
    } finally {
      await guests.dispose();
    }
  });

  it("says at once that the subnets of provider and proxy differ, and leaves nothing", async () => {
    const guests = await openBehindProxy();
    try {
      const { setting } = guests;
      const provider = await openDockerProvider({ ...setting, docker: { ...setting.docker, subnets: OTHER_POOL } });
      const request = startRequest();
      const open = { ...request, spec: { ...request.spec, network: { mode: "open" as const } } };
      const failure = await provider.create(open).catch((error: unknown) => error);
      expect(failure).to.be.instanceOf(Refusal).with.property("code", "docker_proxy_refused");
      expect(failure).to.have.property("message").that.contains("Subnet");
      await provider.close();
      expect(await leftOf(cli, setting.installId)).to.deep.equal([]);
    } finally {
      await guests.dispose();
    }
  });

  it("goes on after kill -9 of docker-proxy at any moment: one container for each sandbox, and none is left", async () => {
    const resources = new Resources();
    const folder = await mkdtemp(join(tmpdir(), "pistis-proxy-kill-"));
    resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
    try {
      const setting = await settingBehind(folder, folder);
      resources.add("objects", folder, () => removeInstalls(cli, [folder]));
      const proxy = keepAlive(setting);
      resources.add("proxy process", proxy, ({ stop }) => stop());
      await proxy.ready();
      const provider = await patiently(() => openDockerProvider(setting));
      resources.add("provider", provider, (opened) => opened.close());
      const killing = proxy.killTimes(KILLS);
      const requests = await lives(provider, killing.over);
      await killing.done;
      const containers = await cli(
        "ps",
        "-aq",
        "--filter",
        `label=${LABELS.install}=${installKey(folder)}`,
        ...SANDBOX_ROLE,
      );
      const running = (await patiently(() => provider.list())).filter(({ state }) => state === "running");
      expect(running.map(({ sandboxId }) => sandboxId).sort()).to.deep.equal(
        requests.map(({ sandboxId }) => sandboxId).sort(),
      );
      expect(containers.trim().split("\n")).to.have.length(requests.length);
      for (const request of requests) await patiently(() => provider.destroy(request));
      // A sweep at the next start takes what a call that was cut off left behind.
      const next = await patiently(() => openDockerProvider(setting));
      await next.close();
      expect(await leftOf(cli, folder)).to.deep.equal([]);
    } finally {
      await resources.close();
    }
  });
});

const cli = dockerCli();

/** Sandboxes that are made, stopped, started and destroyed, over and over, until it is over; then each is made. */
async function lives(provider: SandboxProvider, over: () => boolean): Promise<StartSandbox[]> {
  const requests = Array.from({ length: SANDBOXES }, () => startRequest());
  const live = async (request: StartSandbox) => {
    while (!over()) {
      await patiently(() => provider.create({ ...request, taskId: newId("task") }));
      await patiently(() => provider.stop(request));
      await patiently(() => provider.restart({ ...request, taskId: newId("task") }));
      await patiently(() => provider.destroy(request));
    }
    await patiently(() => provider.create(request));
  };
  await Promise.all(requests.map(live));
  return requests;
}

/** As the provider's service does: what may work later is done again, with the same words. */
async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Retryable) || performance.now() > deadline) throw error;
      await pause(AGAIN_MS);
    }
  }
}

type Guests = ProviderUnderTest & Readonly<{ setting: DockerSetting }>;

async function openBehindProxy(): Promise<Guests> {
  const resources = new Resources();
  const folder = await mkdtemp(join(tmpdir(), "pistis-behind-proxy-"));
  const other = `${folder}-other`;
  resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
  resources.add("objects", folder, () => removeInstalls(cli, [folder, other]));
  const setting = await openProxy(resources, folder, folder);
  const provider = resources.add("provider", await openDockerProvider(setting), (opened) => opened.close());
  const container = async (sandboxId: string) => (await idsOf(cli, folder, sandboxId))[0] ?? "";
  return {
    setting,
    provider,
    openOther: async () => openDockerProvider(await openProxy(resources, folder, other)),
    crash: async (sandboxId) => void (await cli("kill", await container(sandboxId))),
    run: async (sandboxId, command) => cli("exec", await container(sandboxId), "sh", "-c", command),
    dispose: () => resources.close(),
  };
}

async function openProxy(resources: Resources, folder: string, installId: string): Promise<DockerSetting> {
  const setting = await settingBehind(folder, installId);
  const proxy = await startDockerProxy({
    installId,
    engineSocketPath: ENGINE_SOCKET,
    socketPath: socketOf(setting),
    relay: { folder: setting.relaySocketFolder, volume: undefined },
    isInPool: poolCheck(POOL),
    log: silentLog,
  });
  resources.add("proxy", proxy, ({ close }) => close());
  return setting;
}

async function settingBehind(folder: string, installId: string): Promise<DockerSetting> {
  const host = `unix://${join(folder, `proxy-${installId.length}.sock`)}`;
  const setting = await guestSetting(folder, { image: DEBIAN, docker: { host, subnets: POOL } });
  return { ...setting, installId };
}

function socketOf({ docker }: DockerSetting): string {
  return docker.host.slice("unix://".length);
}

/** docker-proxy as a process of its own, which is started again whenever it ends, until `stop`. */
function keepAlive(setting: DockerSetting) {
  const lines: string[] = [];
  let current: Promise<Running> = start(setting, lines);
  let stopping = false;
  const ready = async () => (await current).ready;
  const killOnce = async () => {
    const running = await current;
    await running.ready;
    // Somewhere within its first calls.
    await pause(Math.random() * KILL_MS_MAX);
    running.signal("SIGKILL");
    expect((await running.exited).signal).to.equal("SIGKILL");
    if (!stopping) current = start(setting, lines);
  };
  return {
    ready,
    killTimes: (times: number) => {
      let left = times;
      const done = (async () => {
        for (; left > 0; left--) await killOnce();
        await ready();
      })();
      return { done, over: () => left === 0 };
    },
    stop: async () => {
      stopping = true;
      const running = await current;
      running.signal("SIGTERM");
      expect((await running.exited).code, lines.join("\n")).to.equal(0);
    },
  };
}

function start(setting: DockerSetting, lines: string[]): Promise<Running> {
  return launch(
    {
      command: [process.execPath, "services/docker-proxy/main.ts"],
      environment: {
        PISTIS_INSTALL_ID: setting.installId,
        PISTIS_DOCKER_PROXY_SOCKET: socketOf(setting),
        PISTIS_RELAY_SOCKETS: setting.relaySocketFolder,
      },
      cwd: join(import.meta.dirname, ".."),
      readyLine: /^ready docker-proxy /,
    },
    lines,
  );
}
