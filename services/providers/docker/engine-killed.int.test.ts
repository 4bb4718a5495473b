// The engine itself dies, or has nothing left to give: on an engine of the test's own.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import { contractSpec, startRequest } from "../provider.contract.ts";
import type { SandboxProvider, SeenSandbox } from "../provider.ts";
import { openDockerProvider } from "./docker-provider.ts";
import { guestSetting, idsOf, leftOf, MUSL } from "./testing/docker-guests.ts";
import { type OwnEngine, openOwnEngine } from "./testing/own-engine.ts";

const SANDBOXES = 4;
/** Two networks of the size that the engine makes of them. */
const POOL = ["--default-address-pool", "base=10.223.240.0/28,size=29"];

describe("a Docker engine of one's own", function () {
  this.timeout(180_000);
  let folder: string;
  let engine: OwnEngine;
  let provider: SandboxProvider;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-docker-"));
    engine = await openOwnEngine(POOL);
    await engine.load(MUSL);
  });
  after(async () => {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  });
  const open = async (subnets: string) => {
    const setting = await guestSetting(folder, { image: MUSL, docker: { host: engine.host, subnets } });
    provider = await openDockerProvider(setting);
    return provider;
  };
  afterEach(() => provider.close());

  it("C59: killed while sandboxes are made, and started again, has one container for each and then none", async () => {
    await open("engine");
    const requests = Array.from({ length: SANDBOXES }, () => startRequest());
    const [first] = requests;
    const told = new Promise<SeenSandbox>((resolve) => provider.watch(resolve));
    const making = requests.map((request) => provider.create(request));
    const settled = Promise.allSettled(making);
    await Promise.any(making);
    await engine.kill();
    for (const outcome of await settled) {
      if (outcome.status === "rejected") expect(outcome.reason).to.be.instanceOf(Retryable);
    }
    expect(await provider.inspect(first ?? startRequest()).catch((error: unknown) => error))
      .to.be.instanceOf(Retryable)
      .with.property("code", "docker_unreachable");
    await engine.start();
    expect((await told).state).to.equal("stopped");
    await Promise.all(requests.map((request) => provider.create(request)));
    for (const { sandboxId } of requests) expect(await idsOf(engine.cli, folder, sandboxId)).to.have.lengthOf(1);
    expect((await provider.list()).map(({ state }) => state)).to.deep.equal(requests.map(() => "running"));
    await Promise.all(requests.map((request) => provider.destroy(request)));
    expect(await leftOf(engine.cli, folder)).to.deep.equal([]);
  });

  it("C122: whose address pools are used up is named with its remedy; subnets of our own go on", async () => {
    await open("engine");
    const spec = { ...contractSpec, network: { mode: "open" as const } };
    const requests = Array.from({ length: 3 }, () => startRequest({ spec }));
    const [one, two, three] = requests;
    if (one === undefined || two === undefined || three === undefined) throw new Error("Three were made");
    await provider.create(one);
    await provider.create(two);
    const error = await provider.create(three).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(Retryable).with.property("code", "networks_exhausted");
    expect(error).to.have.property("next").that.contains("default-address-pools");
    await provider.close();
    await open("10.223.240.0/26");
    await provider.create(three);
    const networks = await engine.cli("network", "ls", "-q", "--filter", "name=pistis-");
    const used = await engine.cli(
      "network",
      "inspect",
      "-f",
      "{{range .IPAM.Config}}{{.Subnet}}{{end}}",
      ...networks.trim().split("\n"),
    );
    expect(new Set(used.trim().split("\n")).size).to.equal(3);
    await Promise.all(requests.map((request) => provider.destroy(request)));
    expect(await leftOf(engine.cli, folder)).to.deep.equal([]);
  });

  it("C122: a pool of our own that is used up is named, and goes on once a sandbox is destroyed", async () => {
    await open("10.223.240.64/29");
    const spec = { ...contractSpec, network: { mode: "open" as const } };
    const [first, second] = [startRequest({ spec }), startRequest({ spec })];
    await provider.create(first);
    const error = await provider.create(second).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(Retryable).with.property("code", "networks_exhausted");
    expect(error).to.have.property("next").that.contains("sandboxes.docker.subnets");
    await provider.destroy(first);
    await provider.create(second);
    await provider.destroy(second);
    expect(await leftOf(engine.cli, folder)).to.deep.equal([]);
  });
});
