import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import { z } from "zod";
import { modelConfig, pistisConfig } from "#schemas/config/pistis-config.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import type { HistoryEntry } from "../../session/history.ts";
import { type ModelApi, type ModelServer, type Served, startModelServer } from "../../testing/model-server.ts";
import type { Delta, ModelReply } from "../model.ts";
import { openModels } from "../registry.ts";

const APIS: readonly ModelApi[] = ["anthropic", "openai", "openai-compatible"];
const price = { inputPerMillion: 3, outputPerMillion: 15, cachedInputPerMillion: 0.3 };
const tools = [{ name: "bash", description: "Runs", inputSchema: { type: "object", properties: {} } }];
const hello: HistoryEntry[] = [{ kind: "message", messageId: "msg_1", text: "Hello" }];

type Asking = { history?: HistoryEntry[]; signal?: AbortSignal; limits?: object; onDelta?: (delta: Delta) => void };

describe("models of real providers", () => {
  let server: ModelServer;
  afterEach(() => server.close());

  async function serve(...replies: Served[]): Promise<void> {
    server = await startModelServer((_request, count) => replies[Math.min(count, replies.length - 1)] ?? done);
  }

  async function ask(api: ModelApi, { history = hello, signal, limits = {}, onDelta }: Asking = {}) {
    const model = modelConfig.parse({ api, model: "served-model", apiKey: "a-key", baseUrl: server.url, price });
    const config = pistisConfig.parse({ models: { served: model }, limits });
    const opened = await openModels(config).get("served");
    const never = new AbortController().signal;
    return opened.request({ system: "Be good", history, tools, signal: signal ?? never, onDelta: onDelta ?? ignore });
  }

  const bodyOf = (index: number) => server.requests[index]?.body ?? "";
  const failureOf = (asked: Promise<ModelReply>) =>
    asked.then(
      () => expect.fail("There was a reply"),
      (error: unknown) => error,
    );

  for (const api of APIS) {
    it(`${api}: streams text and counts tokens and cost`, async () => {
      await serve({ kind: "reply", text: "Hello, you", usage: { input: 1_000, output: 100 } });
      const heard: string[] = [];
      const reply = await ask(api, { onDelta: ({ text }) => heard.push(text) });
      expect(reply.content).to.deep.equal([{ type: "text", text: "Hello, you" }]);
      expect(heard.join("")).to.equal("Hello, you");
      expect(reply.finishReason).to.equal("stop");
      expect(reply.usage).to.deep.equal({ inputTokens: 1_000, outputTokens: 100, cachedInputTokens: 0 });
      expect(reply.costUsd).to.be.closeTo(0.0045, 1e-9);
    });

    it(`${api}: reads parallel calls, and keeps malformed input as text`, async () => {
      const calls = [
        { id: "call_1", name: "bash", input: { command: "ls" } },
        { id: "call_2", name: "bash", input: '{"command": "l' },
      ];
      await serve({ kind: "reply", text: "Looking", calls });
      const { content, finishReason } = await ask(api);
      expect(finishReason).to.equal("tool-calls");
      expect(content.slice(-2)).to.deep.equal([
        { type: "tool-call", modelCallId: "call_1", tool: "bash", input: { command: "ls" } },
        { type: "tool-call", modelCallId: "call_2", tool: "bash", input: '{"command": "l' },
      ]);
    });

    it(`${api}: says that the reply was cut at its length`, async () => {
      await serve({ kind: "reply", text: "Once upon", finish: "length" });
      expect((await ask(api)).finishReason).to.equal("length");
    });

    it(`${api}: asks again after 429 and 529 while nothing was heard`, async () => {
      await serve(refused(429, "0"), refused(529, "0"), { kind: "reply", text: "At last" });
      expect((await ask(api)).content).to.deep.equal([{ type: "text", text: "At last" }]);
      expect(server.requests).to.have.length(3);
    });

    it(`${api}: gives up after the configured number of retries`, async () => {
      await serve(refused(529, "0"));
      const error = await failureOf(ask(api, { limits: { modelRetriesMax: 2 } }));
      expect(error).to.be.instanceOf(Retryable).with.property("code", "model_overloaded");
      expect(server.requests).to.have.length(3);
    });

    it(`C128: ${api}: gives up a stream that goes silent, and does not ask again`, async () => {
      await serve({ kind: "silence", text: "I will now" });
      const error = await failureOf(ask(api, { limits: { modelSilenceMs: 60 } }));
      expect(error).to.be.instanceOf(Retryable).with.property("code", "model_silent");
      expect(server.requests).to.have.length(1);
    });

    it(`${api}: does not ask again when the reply breaks off after it was heard`, async () => {
      await serve({ kind: "silence", text: "I will now" });
      const error = await failureOf(ask(api, { onDelta: () => server.breakOff() }));
      expect(error).to.be.instanceOf(Retryable).with.property("code", "model_connection");
      expect(server.requests).to.have.length(1);
    });

    it(`${api}: asks nothing when Stop was pressed before, and leaves no error that nobody hears`, async () => {
      await serve(done);
      const reason = new Error("Stop was pressed");
      expect(await failureOf(ask(api, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
      // An unheard rejection is told after the microtasks, and ends the test run as it would a brain.
      await nextTurn();
      expect(server.requests).to.deep.equal([]);
    });

    it(`${api}: stops at once when it is aborted, with the reason of the abort`, async () => {
      await serve({ kind: "silence", text: "I will now" });
      const stop = new AbortController();
      const asked = ask(api, { signal: stop.signal, onDelta: () => stop.abort(new Error("Stop was pressed")) });
      expect(await failureOf(asked)).to.have.property("message", "Stop was pressed");
    });

    it(`${api}: tells a wrong key from a wrong model`, async () => {
      await serve(refused(401), refused(404));
      expect(await failureOf(ask(api)))
        .to.be.instanceOf(Refusal)
        .with.property("code", "model_auth");
      expect(await failureOf(ask(api)))
        .to.be.instanceOf(Refusal)
        .with.property("code", "model_not_found");
    });

    it(`${api}: names a context overflow`, async () => {
      const message = api === "anthropic" ? "prompt is too long: 210000 tokens > 200000 maximum" : "too much";
      const code = api === "anthropic" ? "invalid_request_error" : "context_length_exceeded";
      await serve({ kind: "status", status: 400, body: { type: "error", error: { type: code, code, message } } });
      expect(await failureOf(ask(api))).to.have.property("code", "model_context_overflow");
    });

    it(`${api}: accepts a conversation with calls, results, notices and an interrupted turn (I6)`, async () => {
      await serve(done);
      await ask(api, { history: long });
      const body = bodyOf(0);
      expect(body).to.contain("call_1").and.contain("call_2").and.contain("a result");
      expect(body).to.contain("it may have partly or fully run").and.contain("The user stopped the turn here");
      await ask(api, { history: long });
      expect(bodyOf(1)).to.equal(body);
    });
  }

  it("anthropic: keeps reasoning with its signature and gives it back", async () => {
    await serve({ kind: "reply", reasoning: { text: "Hm", signature: "sig-1" }, calls: [lsCall] }, done);
    const { content } = await ask("anthropic");
    const [reasoning] = content;
    expect(reasoning).to.deep.include({ type: "reasoning", text: "Hm" });
    const history = [...hello, replied(content), result("cal_1")];
    await ask("anthropic", { history });
    expect(bodyOf(1)).to.contain('"signature":"sig-1"');
  });

  it("openai: keeps encrypted reasoning, gives it back, and stores nothing there", async () => {
    await serve({ kind: "reply", reasoning: { text: "Hm", signature: "enc-1" }, calls: [lsCall] }, done);
    const { content } = await ask("openai");
    await ask("openai", { history: [...hello, replied(content), result("cal_1")] });
    const second = z.looseObject({ store: z.boolean() }).parse(JSON.parse(bodyOf(1)));
    expect(second.store).to.equal(false);
    expect(JSON.stringify(second)).to.contain('"encrypted_content":"enc-1"');
  });

  it("anthropic: marks the system prompt and the newest messages as cacheable, and prices the cache", async () => {
    await serve({ kind: "reply", text: "Hi", usage: { input: 100, output: 10, cacheRead: 1_000, cacheWrite: 200 } });
    const reply = await ask("anthropic");
    const body = z.looseObject({ system: z.json(), messages: z.json() });
    const { system, messages } = body.parse(JSON.parse(bodyOf(0)));
    expect(JSON.stringify(system)).to.contain("cache_control");
    expect(JSON.stringify(messages)).to.contain("cache_control");
    expect(reply.usage).to.deep.equal({ inputTokens: 1_300, outputTokens: 10, cachedInputTokens: 1_000 });
    expect(reply.costUsd).to.be.closeTo((100 * 3 + 200 * 3.75 + 1_000 * 0.3 + 10 * 15) / 1e6, 1e-12);
  });
});

const done: Served = { kind: "reply", text: "Done" };
const lsCall = { id: "call_1", name: "bash", input: { command: "ls" } };

function ignore(): void {
  // These tests look at the whole reply.
}

function refused(status: number, retryAfter?: string): Served {
  const headers: Record<string, string> = retryAfter === undefined ? {} : { "retry-after": retryAfter };
  const type = status === 529 ? "overloaded_error" : "some_error";
  return { kind: "status", status, headers, body: { type: "error", error: { type, code: type, message: "Not now" } } };
}

function result(callId: string): HistoryEntry {
  return { kind: "result", callId, text: "a result", failed: false };
}

function replied(content: ModelReply["content"]): HistoryEntry {
  const parts = content.map((part) => (part.type === "tool-call" ? { ...part, callId: "cal_1" } : part));
  return { kind: "reply", replyId: "rpl_1", model: "served", content: parts };
}

const call = (callId: string, modelCallId: string, input: z.core.util.JSONType) =>
  ({ type: "tool-call", callId, modelCallId, tool: "bash", input }) as const;

const long: HistoryEntry[] = [
  ...hello,
  {
    kind: "reply",
    replyId: "rpl_1",
    model: "served",
    content: [call("cal_1", "call_1", { command: "ls" }), call("cal_2", "call_2", "{")],
  },
  { kind: "notice", text: "The sandbox was restarted." },
  result("cal_1"),
  { kind: "ended", reason: "interrupted", text: undefined },
  { kind: "message", messageId: "msg_2", text: "Go on" },
];
