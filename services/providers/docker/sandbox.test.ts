import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import { startRequest } from "../provider.contract.ts";
import { createSandbox } from "./sandbox.ts";
import { type Answer, type FakeAnswer, type FakeDocker, openFakeDocker } from "./testing/fake-engine.ts";

const NO_SUCH: FakeAnswer = { status: 404, json: { message: "no such thing" } };
const request = startRequest();

/** An image that is prepared already, and containers that were made and never started. */
const quiet: Answer = (call, query) => {
  const { [0]: method, [1]: path = "" } = call.split(" ");
  if (path === "/containers/json") return { status: 200, json: [] };
  if (path.startsWith("/images/")) return { status: 200, json: { Id: "image" } };
  if (path === "/volumes/create") return { status: 201, json: { Name: "volume" } };
  if (path === "/volumes") return { status: 200, json: { Volumes: null } };
  if (path === "/containers/create") return { status: 201, json: { Id: nameOf(query.get("name") ?? "") } };
  if (method === "HEAD") return { status: 200, headers: { "x-docker-container-path-stat": btoa('{"size":0}') } };
  if (method === "GET" && path.endsWith("/archive")) return NO_SUCH;
  if (path.endsWith("/json")) return { status: 200, json: inspected(path.split("/")[2] ?? "") };
  return undefined;
};

describe("a sandbox of Docker whose first provider was disturbed", () => {
  let fake: FakeDocker;
  afterEach(() => fake.close());

  it("is made anew when what was made of it and never ran cannot be started, whatever the engine says", async () => {
    let starts = 0;
    fake = await openFakeDocker((call, query) =>
      call === "POST /containers/sandbox/start" && starts++ === 0 ? NO_SUCH : quiet(call, query),
    );
    await createSandbox(fake.docker, request);
    expect(fake.calls.filter((call) => call.includes(" /containers/sandbox"))).to.include.members([
      "DELETE /containers/sandbox",
    ]);
    expect(starts).to.equal(2);
    expect([...fake.docker.running.keys()]).to.deep.equal(["sandbox"]);
  });

  it("gets no image whose users were read from a filler that somebody removed", async () => {
    let isSwept = true;
    fake = await openFakeDocker((call, query) =>
      isSwept && call === "GET /containers/filler/json" ? NO_SUCH : quiet(call, query),
    );
    const failure = await createSandbox(fake.docker, request).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Retryable).with.property("code", "image_not_prepared");
    isSwept = false;
    await createSandbox(fake.docker, request);
    expect(fake.docker.running.size).to.equal(1);
  });
});

function nameOf(name: string): string {
  return name.includes("filler") ? "filler" : "sandbox";
}

function inspected(id: string) {
  return {
    Id: id,
    Config: { User: "1000:1000", Labels: {} },
    State: { Status: "created", StartedAt: "0001-01-01T00:00:00Z", ExitCode: 0, OOMKilled: false },
  };
}
