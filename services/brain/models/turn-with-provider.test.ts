import { expect } from "chai";
import { type ModelServer, type Served, startModelServer } from "../testing/model-server.ts";
import { World } from "../testing/world.ts";

const call = (id: string, name: string, input: Parameters<typeof JSON.stringify>[0]): Served => ({
  kind: "reply",
  calls: [{ id, name, input }],
});
const done: Served = { kind: "reply", text: "Done" };

describe("a turn with a provider's model", () => {
  let world: World;
  let server: ModelServer;
  afterEach(async () => {
    await world.close();
    await server.close();
  });

  async function start(limits: object, ...replies: Served[]): Promise<string> {
    server = await startModelServer((_request, count) => replies[count] ?? done);
    const claude = { api: "anthropic", model: "served", apiKey: "key", baseUrl: server.url, price };
    world = new World({ config: { models: { claude }, limits } });
    await world.startBrain();
    const session = await world.createSession({ model: "claude" });
    await world.post(session, "Please do");
    return session;
  }

  const told = (index: number) => server.requests[index]?.body;

  it("runs what the model asks for and gives it the result", async () => {
    const session = await start({}, call("toolu_1", "bash", { command: "echo hello" }));
    await world.first(session, "TurnEnded");
    expect(told(1)).to.contain("hello\\n[Exit code 0.]").and.contain("toolu_1");
    expect((await world.first(session, "ModelReplied")).data.costUsd).to.be.greaterThan(0);
    expect(world.live.some(({ kind }) => kind === "text-delta")).to.equal(true);
  });

  it("refuses malformed input, unknown tools and input that does not fit, and the model is told why", async () => {
    const session = await start(
      {},
      call("toolu_1", "bash", '{"command": "ec'),
      call("toolu_2", "fly", {}),
      call("toolu_3", "bash", { cmd: "ls" }),
    );
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    const codes = [0, 1, 2].map(async (index) => (await world.first(session, "ToolRefused", index)).data.failure.code);
    expect(await Promise.all(codes)).to.deep.equal(["tool_input_malformed", "tool_unknown", "tool_input_invalid"]);
    expect(told(1)).to.contain("not valid JSON").and.contain('"is_error":true');
    expect(told(2)).to.contain("There are: bash");
    expect((await world.events(session)).some(({ type }) => type === "ToolStarted")).to.equal(false);
  });

  it("C128: ends with a typed failure when the stream goes silent, and the next message goes on", async () => {
    const session = await start({ modelSilenceMs: 100 }, { kind: "silence", text: "I will" });
    expect((await world.first(session, "TurnEnded")).data).to.deep.include({ reason: "failed" });
    expect((await world.first(session, "TurnEnded")).data.failure?.code).to.equal("model_silent");
    await world.post(session, "Go on");
    expect((await world.first(session, "TurnEnded", 1)).data.reason).to.equal("completed");
    expect(told(1)).to.contain("The turn ended early here");
  });

  it("Stop during a reply ends the turn at once and keeps what the user saw", async () => {
    const session = await start({}, { kind: "silence", text: "I will now delete" });
    await new Promise<void>((resolve) => {
      world.onLive = ({ kind }) => kind === "text-delta" && resolve();
    });
    await world.interrupt(session);
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
    const { content, costUsd } = (await world.first(session, "ModelReplied")).data;
    expect(JSON.stringify(content)).to.contain("I will");
    expect(costUsd).to.equal(null);
    await world.post(session, "Go on");
    await world.first(session, "TurnEnded", 1);
    expect(told(1)).to.contain("The user stopped the turn here");
  });

  it("C21: never sends a call without a result, whatever ended the turn before", async () => {
    const session = await start({}, call("toolu_1", "bash", { command: "echo waiting; sleep 1000" }));
    await new Promise<void>((resolve) => {
      world.onLive = ({ kind }) => kind === "output" && resolve();
    });
    await world.interrupt(session);
    await world.first(session, "TurnEnded");
    await world.post(session, "Go on");
    expect((await world.first(session, "TurnEnded", 1)).data.reason).to.equal("completed");
    expect(told(1)).to.contain('"tool_result"').and.contain("Stopped before it ended");
  });

  it("C131: stops at its limit of cost", async () => {
    const session = await start({ costUsdPerTurnMax: 0.000001 }, call("toolu_1", "bash", { command: "true" }));
    expect((await world.first(session, "TurnEnded")).data.failure?.code).to.equal("cost");
  });

  it("ends as a limit when a conversation that cannot be shortened is too long", async () => {
    const message = "prompt is too long: 210000 tokens > 200000 maximum";
    const body = { type: "error", error: { type: "invalid_request_error", message } };
    const session = await start({}, { kind: "status", status: 400, body });
    const { reason, failure } = (await world.first(session, "TurnEnded")).data;
    expect(reason).to.equal("limit");
    expect(failure).to.deep.include({ code: "context_overflow" });
    expect(failure?.next).to.contain("new session");
  });
});

const price = { inputPerMillion: 3, outputPerMillion: 15 };
