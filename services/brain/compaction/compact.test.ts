import { expect } from "chai";
import type { EventOf } from "#schemas/ledger/event.ts";
import { type ModelServer, type Served, startModelServer } from "../testing/model-server.ts";
import { checkRequest } from "../testing/valid-request.ts";
import { World } from "../testing/world.ts";

const CONTEXT_TOKENS = 16_000;
const FIRST = "Make the parser accept comments";

describe("a conversation that nears its model's context window", () => {
  let world: World;
  let server: ModelServer;
  afterEach(async () => {
    await world.close();
    await server.close();
  });

  const isSummary = (body: string) => body.includes("Answer with the summary alone");

  /** `answer` gets the number of requests before this one that asked for no summary. */
  async function start(answer: (step: number) => Served, summary: Served = { kind: "reply", text: "All is well" }) {
    let step = 0;
    server = await startModelServer(({ body }) => counted(body, isSummary(body) ? summary : answer(step++)));
    const config = { contextTokens: CONTEXT_TOKENS, outputTokensMax: 1_000, apiKey: "key", baseUrl: server.url };
    world = new World({ config: { models: { small: { api: "anthropic", model: "served", ...config } } } });
    await world.startBrain();
    const session = await world.createSession({ model: "small" });
    await world.post(session, FIRST);
    return session;
  }

  async function compactions(session: string): Promise<Array<EventOf<"HistoryCompacted">["data"]>> {
    const events = await world.events(session);
    return events.flatMap((event) => (event.type === "HistoryCompacted" ? [event.data] : []));
  }

  function print(characters: number, step: number, say = ""): Served {
    const command = `head -c ${characters} /dev/zero | tr '\\0' x`;
    return { kind: "reply", text: say, calls: [{ id: `toolu_${step}`, name: "bash", input: { command } }] };
  }

  /** The way a provider counts: four characters to a token. */
  function counted(body: string, served: Served): Served {
    return served.kind === "reply" ? { usage: { input: Math.ceil(body.length / 4), output: 20 }, ...served } : served;
  }

  function expectAllFit(): void {
    for (const { body } of server.requests) {
      expect(body.length / 4).to.be.lessThan(CONTEXT_TOKENS);
      checkRequest(body);
      expect(body).to.contain(FIRST);
    }
  }

  it("shortens old results first, and says how much is left out", async () => {
    const session = await start((step) => (step < 8 ? print(8_000, step) : done));
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    const made = await compactions(session);
    expect(made.map(({ compaction }) => compaction.kind)).to.include("results-shortened");
    expect(made.every(({ tokensBefore, tokensAfter }) => tokensAfter < tokensBefore)).to.equal(true);
    expect(server.requests.at(-1)?.body).to.contain("characters left out here; bash_output with handle");
    expectAllFit();
  });

  it("C130: summarises when results are not what makes it long, and never loops", async () => {
    const text = "word ".repeat(800);
    const session = await start((step) => (step < 60 ? print(10, step, text) : done));
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    const made = await compactions(session);
    expect(made.map(({ compaction }) => compaction.kind)).to.include("summarized");
    expect(made.length).to.be.lessThan(20);
    expect(server.requests.at(-1)?.body).to.contain("All is well");
    expectAllFit();
  });

  it("C130: cuts a summary that is larger than the window", async () => {
    const text = "word ".repeat(800);
    const session = await start((step) => (step < 30 ? print(10, step, text) : done), {
      kind: "reply",
      text: "summary ".repeat(20_000),
    });
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    expectAllFit();
  });

  it("goes on without a summary when the model gives none", async () => {
    const text = "word ".repeat(800);
    const session = await start((step) => (step < 30 ? print(10, step, text) : done), tooLong);
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    expect(server.requests.at(-1)?.body).to.contain("were not summarised");
  });

  it("C85: cuts a single result that is larger than the window", async () => {
    server = await startModelServer(({ body }, count) => counted(body, count === 0 ? print(32_000, 0) : done));
    const config = { contextTokens: 9_000, outputTokensMax: 1_000, apiKey: "key", baseUrl: server.url };
    world = new World({ config: { models: { tiny: { api: "anthropic", model: "served", ...config } } } });
    await world.startBrain();
    const session = await world.createSession({ model: "tiny" });
    await world.post(session, FIRST);
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    expect((await compactions(session)).map(({ compaction }) => compaction.kind)).to.deep.equal(["cut"]);
    for (const { body } of server.requests) checkRequest(body);
    expect((await world.first(session, "ToolDone")).data.text).to.have.length.greaterThan(32_000);
  });

  it("halves it once when the provider says that it is too long, and asks again", async () => {
    const session = await start((step) => (step === 3 ? tooLong : step < 6 ? print(8_000, step) : done));
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    expect(await compactions(session)).not.to.deep.equal([]);
    expectAllFit();
  });

  it("C21: ends the turn as a limit when even half is too long, and takes the next message", async () => {
    let refuses = true;
    const session = await start((step) => (step < 2 ? print(8_000, step) : refuses ? tooLong : done));
    const { reason, failure } = (await world.first(session, "TurnEnded")).data;
    expect(reason).to.equal("limit");
    expect(failure?.code).to.equal("context_overflow");
    expect(failure?.next).to.contain("new session");
    refuses = false;
    await world.post(session, "Go on");
    expect((await world.first(session, "TurnEnded", 1)).data.reason).to.equal("completed");
    expectAllFit();
  });

  it("counts what a summary costs", async () => {
    const text = "word ".repeat(800);
    const session = await start((step) => (step < 30 ? print(10, step, text) : done), {
      kind: "reply",
      text: "All is well",
      usage: { input: 700, output: 70 },
    });
    await world.first(session, "TurnEnded");
    const [first] = (await compactions(session)).flatMap(({ compaction }) =>
      compaction.kind === "summarized" ? [compaction.usage] : [],
    );
    expect(first).to.deep.equal({ inputTokens: 700, outputTokens: 70, cachedInputTokens: 0 });
  });
});

const done: Served = { kind: "reply", text: "Done" };
const tooLong: Served = {
  kind: "status",
  status: 400,
  body: { type: "error", error: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens" } },
};
