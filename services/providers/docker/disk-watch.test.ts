import { expect } from "chai";
import { startRequest } from "../provider.contract.ts";
import type { SeenSandbox } from "../provider.ts";
import { endFullSandboxes } from "./disk-watch.ts";
import { sandboxLabels } from "./names.ts";
import { type FakeDocker, openFakeDocker } from "./testing/fake-engine.ts";

const MIB = 1024 * 1024;

describe("the disk watch of Docker sandboxes over an engine that does not stop one", () => {
  const stuck = startRequest();
  const other = startRequest();
  let stops: number;
  let fake: FakeDocker;
  beforeEach(async () => {
    stops = 500;
    fake = await openFakeDocker((call) => {
      const about = { State: "running", Status: "Up", SizeRw: 10_000 * MIB };
      if (call === "GET /containers/json") {
        const json = [
          { Id: "stuck", ...about, Labels: sandboxLabels("key", stuck) },
          { Id: "other", ...about, Labels: sandboxLabels("key", other) },
        ];
        return { status: 200, json };
      }
      return call === "POST /containers/stuck/stop" ? { status: stops, json: { message: "no" } } : undefined;
    });
  });
  afterEach(() => fake.close());

  it("ends the others all the same, goes on watching it, and ends it by the same limit when that works", async () => {
    const { docker } = fake;
    const told: SeenSandbox[] = [];
    docker.watchers.add((ended) => told.push(ended));
    docker.running.set("stuck", stuck).set("other", other);
    const before = new Map<string, number>();
    await endFullSandboxes(docker, before);
    expect(told.map(({ sandboxId }) => sandboxId)).to.deep.equal([other.sandboxId]);
    expect([...docker.running.keys()]).to.deep.equal(["stuck"]);
    stops = 204;
    await endFullSandboxes(docker, before);
    expect(told.map(({ sandboxId }) => sandboxId)).to.deep.equal([other.sandboxId, stuck.sandboxId]);
    expect(docker.running.size).to.equal(0);
  });
});
