import { expect } from "chai";
import { type ModelServer, type Served, type ServedReply, startModelServer } from "../testing/model-server.ts";
import { checkRequest } from "../testing/valid-request.ts";
import { anthropicEvents } from "../testing/wire-anthropic.ts";
import { World } from "../testing/world.ts";

const SEEDS = 6;
const MESSAGES = 12;

/** What goes wrong, and what each turn that it happens in may end as. */
const kinds: Readonly<Record<string, { served: (id: string) => Served; ends: readonly string[] }>> = {
  "C128: a stream that is silent from the start": { served: () => silence(""), ends: ["model_silent"] },
  "C128: a stream that goes silent": { served: () => silence("I will"), ends: ["model_silent"] },
  "429 for good": { served: () => refused(429, "rate_limit_error"), ends: ["model_rate_limited"] },
  "529 for good": { served: () => refused(529, "overloaded_error"), ends: ["model_overloaded"] },
  "500 for good": { served: () => refused(500, "api_error"), ends: ["model_unavailable"] },
  "a wrong key": { served: () => refused(401, "authentication_error"), ends: ["model_auth"] },
  "a model that does not exist": { served: () => refused(404, "not_found_error"), ends: ["model_not_found"] },
  "a request that is not accepted": { served: () => refused(400, "invalid_request_error"), ends: ["model_refused"] },
  "C21: a context overflow": {
    served: () => refused(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
    ends: ["context_overflow"],
  },
  "a reply that breaks off": { served: (id) => raw(replyText(id).slice(0, 400)), ends: ["model_connection"] },
  "a reply with a broken event": { served: () => raw('event: message_start\ndata: {"type":\n\n'), ends: ["model_"] },
  "an error in the middle of a reply": {
    served: (id) => raw(`${replyText(id).slice(0, 400).split("\n\n").slice(0, -1).join("\n\n")}\n\n${ERROR_EVENT}`),
    ends: ["model_"],
  },
  "a page instead of a reply": {
    served: () => ({ kind: "raw", contentType: "text/html", body: "<html>Bad gateway</html>" }),
    ends: ["model_", "completed"],
  },
  "malformed tool input": { served: (id) => call(id, "bash", '{"command": "ec'), ends: ["completed"] },
  "tool input that is no object": { served: (id) => call(id, "bash", "[1, 2]"), ends: ["completed"] },
  "tool input that does not fit": { served: (id) => call(id, "bash", { cmd: "ls" }), ends: ["completed"] },
  "a tool that does not exist": { served: (id) => call(id, "fly", {}), ends: ["completed"] },
  "a tool without a name": { served: (id) => call(id, "", {}), ends: ["completed", "model_"] },
  "two calls with one id": {
    served: (id) => ({ kind: "reply", calls: [0, 1].map(() => ({ id, name: "fly", input: {} })) }),
    ends: ["completed"],
  },
  "a call without an id": { served: () => call("", "fly", {}), ends: ["completed", "model_"] },
  "an empty reply": { served: () => ({ kind: "reply" }), ends: ["completed"] },
  "a reply of nothing but reasoning": {
    served: () => ({ kind: "reply", reasoning: { text: "Hm", signature: "s" }, finish: "length" }),
    ends: ["output_tokens"],
  },
  "a reply that is cut": { served: () => ({ kind: "reply", text: "Once", finish: "length" }), ends: ["output_tokens"] },
  "a call that is cut": {
    served: (id) => ({ kind: "reply", calls: [{ id, name: "bash", input: '{"comm' }], finish: "length" }),
    ends: ["completed", "output_tokens"],
  },
};

describe("a model that fails", () => {
  let world: World;
  let server: ModelServer;
  let failing: ((id: string) => Served) | undefined;

  beforeEach(async () => {
    failing = undefined;
    server = await startModelServer((_request, count) => answer(count));
    const model = { api: "anthropic", model: "served", apiKey: "key", baseUrl: server.url };
    const limits = { modelSilenceMs: 800, modelRetriesMax: 1 };
    world = new World({ config: { models: { claude: model }, limits } });
    await world.startBrain();
  });
  afterEach(async () => {
    await world.close();
    await server.close();
  });

  /** A kind of failure that calls tools happens once, or the model would call them for ever. */
  function answer(count: number): Served {
    const served = failing?.(`toolu_${count}`) ?? done;
    if (served.kind === "reply") failing = undefined;
    return served;
  }

  async function turn(session: string, nth: number, kind?: keyof typeof kinds): Promise<string> {
    failing = kind === undefined ? undefined : kinds[kind]?.served;
    await world.post(session, `Message ${nth}`);
    const { reason, failure } = (await world.first(session, "TurnEnded", nth)).data;
    failing = undefined;
    if (reason === "completed") return reason;
    expect(failure?.next, `${kind} says what to do next`).to.be.a("string");
    return failure?.code ?? "no code";
  }

  const isOne = (end: string, of: readonly string[]) => of.some((name) => end === name || end.startsWith(`${name}`));

  for (const [kind, { ends }] of Object.entries(kinds)) {
    it(`${kind}: ends the turn with a reason, and the next message starts one with a valid request (I6)`, async () => {
      const session = await world.createSession({ model: "claude" });
      const end = await turn(session, 0, kind);
      expect(isOne(end, ends), end).to.equal(true);
      expect(await turn(session, 1)).to.equal("completed");
      for (const { body } of server.requests) checkRequest(body);
      expect(server.requests.at(-1)?.body).to.contain("Message 1");
    });
  }

  for (let seed = 1; seed <= SEEDS; seed++) {
    it(`is never a stuck session, whatever fails in whatever order (seed ${seed})`, async () => {
      const session = await world.createSession({ model: "claude" });
      const names = Object.keys(kinds);
      for (let nth = 0, at = seed; nth < MESSAGES; nth++) {
        at = (at * 1_103_515_245 + 12_345) % 2_147_483_648;
        const kind = names[at % names.length] ?? "";
        const end = await turn(session, nth, kind);
        expect(isOne(end, kinds[kind]?.ends ?? []), `${kind}: ${end}`).to.equal(true);
      }
      expect(await turn(session, MESSAGES)).to.equal("completed");
      for (const { body } of server.requests) checkRequest(body);
    });
  }
});

const done: ServedReply = { kind: "reply", text: "Done" };
const ERROR_EVENT =
  'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';

function silence(text: string): Served {
  return { kind: "silence", text };
}

function raw(body: string): Served {
  return { kind: "raw", contentType: "text/event-stream", body };
}

function replyText(id: string): string {
  const text = "I will look at the files first, then do what you said";
  return anthropicEvents({ kind: "reply", text, calls: [{ id, name: "bash", input: {} }] }).join("");
}

function refused(status: number, type: string, message = "Not now"): Served {
  return { kind: "status", status, headers: { "retry-after": "0" }, body: { type: "error", error: { type, message } } };
}

function call(id: string, name: string, input: Parameters<typeof JSON.stringify>[0]): Served {
  return { kind: "reply", calls: [{ id, name, input }] };
}
