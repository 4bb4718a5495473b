import { once } from "node:events";
import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { type ModelServer, type Served, startModelServer } from "../testing/model-server.ts";
import { World } from "../testing/world.ts";

describe("a turn whose start is being stored", () => {
  let world: World;
  let models: ModelServer;
  let asked: EventTarget;
  let starting: PromiseWithResolvers<void>;
  let mayStart: PromiseWithResolvers<void>;
  beforeEach(() => {
    asked = new EventTarget();
    starting = Promise.withResolvers();
    mayStart = Promise.withResolvers();
  });
  afterEach(async () => {
    mayStart.resolve();
    await world.close();
    await models.close();
  });

  /** Holds what stores the start of a turn until it may be; `store` is what it does then. */
  function holding(ledger: Ledger, store: Ledger["append"] = ledger.append): Ledger {
    return {
      read: (...args) => ledger.read(...args),
      append: async (...args) => {
        if (!args[2].some(({ type }) => type === "TurnStarted")) return ledger.append(...args);
        starting.resolve();
        await mayStart.promise;
        return store(...args);
      },
    };
  }

  /** A session with a sandbox that has had one turn, whose second one is held; the model was asked for it. */
  async function begun(reply: Served, store?: (ledger: Ledger) => Ledger["append"]) {
    models = await startModelServer((_request, count) => {
      queueMicrotask(() => asked.dispatchEvent(new Event(`${count}`)));
      return count === 0 ? call : count === 2 ? reply : { kind: "reply", text: "Done" };
    });
    const bench = { api: "openai-compatible", model: "bench", baseUrl: models.url };
    world = new World({ config: { models: { bench } } });
    mayStart.resolve();
    await world.startBrain("brain-a", { through: (ledger) => holding(ledger, store?.(ledger)) });
    const session = await world.createSession({ model: "bench" });
    await world.post(session, "First");
    await world.first(session, "TurnEnded");
    [starting, mayStart] = [Promise.withResolvers(), Promise.withResolvers()];
    const isAsked = once(asked, "2");
    world.live.length = 0;
    const messageId = await world.post(session, "Second");
    await Promise.all([starting.promise, isAsked]);
    return { session, messageId };
  }

  const call: Served = { kind: "reply", text: "On it", calls: [{ id: "c", name: "bash", input: { command: "true" } }] };
  const typesOf = async (session: string) => (await world.events(session)).map(({ type }) => type);
  const countOf = async (session: string, type: string) =>
    (await typesOf(session)).filter((other) => other === type).length;
  const askedFor = (count: number) => models.requests[count]?.body ?? "";

  it("asks the model, and does nothing else that others could see", async () => {
    const { session } = await begun(call);
    const peer = await world.peerOf(session);
    const before = peer.received.length;
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    expect(await countOf(session, "TurnStarted")).to.equal(1);
    expect(await countOf(session, "ModelReplied")).to.equal(2);
    expect(peer.received).to.have.length(before);
    expect(world.live).to.deep.equal([]);
    mayStart.resolve();
    await world.first(session, "TurnEnded", 1);
    expect(await countOf(session, "ToolDone")).to.equal(2);
    expect(world.live.map(({ text }) => text).join("")).to.contain("On it");
    expect(models.requests).to.have.length(4);
    const { messages } = await world.ledger.open("brain").read(session);
    const appends = messages.map(({ events }) => events.map(({ type }) => type).join(" "));
    expect(appends.slice(appends.lastIndexOf("TurnStarted") + 1)).to.include("ModelReplied ToolStarted");
  });

  it("asks anew when another message comes before it is stored, and says nothing of the first reply", async () => {
    const { session, messageId } = await begun({ kind: "reply", text: "Too early" });
    const later = await world.post(session, "Third");
    mayStart.resolve();
    expect((await world.first(session, "TurnStarted", 1)).data.messageIds).to.deep.equal([messageId, later]);
    await world.first(session, "TurnEnded", 1);
    expect(askedFor(2)).not.to.contain("Third");
    expect(askedFor(3)).to.contain("Second").and.contain("Third");
    expect(JSON.stringify(await world.events(session))).not.to.contain("Too early");
    expect(JSON.stringify(world.live)).not.to.contain("Too early");
    expect(await countOf(session, "TurnStarted")).to.equal(2);
  });

  it("is given up with its request when its message is withdrawn first", async () => {
    const { session, messageId } = await begun({ kind: "silence", text: "Thinking" });
    const brokenOff = models.over(2);
    await world.append("gateway", session, { type: "MessageWithdrawn", data: { messageId } });
    mayStart.resolve();
    await brokenOff;
    await world.post(session, "Third");
    await world.first(session, "TurnEnded", 1);
    expect(await countOf(session, "TurnStarted")).to.equal(2);
    expect(askedFor(3)).not.to.contain("Second");
  });

  it("I4: is another brain's when that one stores its own first, also under the same epoch", async () => {
    const { session, messageId } = await begun(call);
    const peer = await world.peerOf(session);
    const before = peer.received.length;
    const start = { turnId: "trn_other", epoch: 2, brain: "another", messageIds: [messageId] };
    await world.append("brain", session, { type: "TurnStarted", data: start });
    mayStart.resolve();
    // This brain holds the lease, so the turn is its to take over: by a newer epoch alone.
    expect((await world.first(session, "TurnTakenOver")).data.epoch).to.equal(3);
    await world.first(session, "TurnEnded", 1);
    expect(peer.received.slice(before).map(({ epoch }) => epoch)).not.to.include(2);
    expect(await countOf(session, "TurnStarted")).to.equal(2);
    expect(await countOf(session, "ModelReplied")).to.equal(3);
  });

  it("C140: comes again when the ledger cannot be reached, and nothing of it was stored", async () => {
    let fails = 0;
    const { session } = await begun({ kind: "reply", text: "Lost" }, (ledger) => async (...args) => {
      if (fails++ === 1) throw new Retryable("ledger_unreachable", "No answer", { retryAfterMs: 1 });
      return ledger.append(...args);
    });
    mayStart.resolve();
    expect((await world.first(session, "TurnEnded", 1)).data.reason).to.equal("completed");
    expect(await countOf(session, "TurnStarted")).to.equal(2);
    expect(JSON.stringify(await world.events(session))).not.to.contain("Lost");
  });
});
