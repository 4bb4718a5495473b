import { expect } from "chai";
import { startRequest } from "../provider.contract.ts";
import { refLabels } from "./names.ts";
import { ABANDONED_AFTER_MS, sweep } from "./sweep.ts";
import { type FakeDocker, openFakeDocker } from "./testing/fake-engine.ts";

describe("the sweep at a Docker provider's start", () => {
  let fake: FakeDocker;
  afterEach(() => fake.close());

  it("leaves what another provider may be just making, and removes what nobody makes any more", async () => {
    const now = Date.now();
    const ages = { young: now - ABANDONED_AFTER_MS / 2, old: now - ABANDONED_AFTER_MS * 2 };
    fake = await openFakeDocker((call, query) => {
      const isFillers = (query.get("filters") ?? "").includes("filler");
      if (call === "GET /containers/json") return { status: 200, json: isFillers ? fillers : [] };
      if (call === "GET /networks") return { status: 200, json: networks };
      return undefined;
    });
    const about = { State: "created", Status: "Created", Labels: {} };
    const fillers = Object.entries(ages).map(([name, made]) => ({
      ...about,
      Id: `${name}-filler`,
      Created: Math.floor(made / 1000),
    }));
    const networks = Object.entries(ages).map(([name, made]) => ({
      Id: `${name}-network`,
      Name: name,
      Labels: refLabels("key", "network", startRequest()),
      Created: new Date(made).toISOString().replace("Z", "123456Z"),
    }));
    await sweep(fake.docker);
    expect(fake.calls.filter((call) => call.startsWith("DELETE"))).to.deep.equal([
      "DELETE /containers/old-filler",
      "DELETE /networks/old-network",
    ]);
  });
});
