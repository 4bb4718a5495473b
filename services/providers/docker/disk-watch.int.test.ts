import { expect } from "chai";
import { newId } from "#shared/ids/ids.ts";
import { contractSpec, startRequest } from "../provider.contract.ts";
import type { SeenSandbox } from "../provider.ts";
import { endFullSandboxes } from "./disk-watch.ts";
import { prepareDocker } from "./docker-provider.ts";
import { createSandbox, inspectSandbox, restartSandbox } from "./sandbox.ts";
import { type DockerGuests, openDockerGuests } from "./testing/docker-guests.ts";

describe("the disk watch of Docker sandboxes", function () {
  this.timeout(120_000);
  let guests: DockerGuests;
  before(async () => {
    guests = await openDockerGuests();
  });
  after(() => guests.dispose());

  it("C124: ends a sandbox over its limit and says why, keeps its disk, and lets it write a little to tidy up", async () => {
    const docker = await prepareDocker(guests.setting);
    const told: SeenSandbox[] = [];
    docker.watchers.add((ended) => told.push(ended));
    const [full, other] = [64, 256].map((diskMiB) => startRequest({ spec: { ...contractSpec, diskMiB } }));
    if (full === undefined || other === undefined) throw new Error("Two were made");
    const write = (name: string) => guests.run(full.sandboxId, `dd if=/dev/zero of=${name} bs=1M count=80 2>/dev/null`);
    await createSandbox(docker, full);
    await createSandbox(docker, other);
    const before = new Map<string, number>();
    await endFullSandboxes(docker, before);
    expect(told).to.deep.equal([]);
    await write("/workspace/large");
    await endFullSandboxes(docker, before);
    expect(told).to.have.lengthOf(1);
    expect(told[0]).to.include({ sandboxId: full.sandboxId, state: "stopped" });
    expect(told[0]?.reason).to.match(/^Its disk holds \d+ MiB, and may hold 64 MiB$/);
    expect((await inspectSandbox(docker, other)).state).to.equal("running");
    await restartSandbox(docker, { ...full, taskId: newId("task") });
    expect(await guests.run(full.sandboxId, "ls /workspace")).to.equal("large\n");
    await endFullSandboxes(docker, before);
    expect((await inspectSandbox(docker, full)).state).to.equal("running");
    await write("/tmp/more");
    await endFullSandboxes(docker, before);
    expect((await inspectSandbox(docker, full)).state).to.equal("stopped");
  });
});
