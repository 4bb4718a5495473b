import { expect } from "chai";
import { apiError } from "#schemas/api/error.ts";
import { pathTo } from "#schemas/api/paths.ts";
import {
  createdSession,
  endedSession,
  interrupted,
  postedMessage,
  sessionDetail,
  sessionPage,
} from "#schemas/api/session.ts";
import { eventsPage } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import { type Answer, type Gateway, openWorld, type World } from "./testing/world.ts";

const turnStarted = (messageId: string): PistisEvent => ({
  type: "TurnStarted",
  data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: [messageId] },
});

describe("the gateway's sessions", () => {
  let world: World;
  let gateway: Gateway;

  beforeEach(async () => {
    world = await openWorld();
    gateway = await world.gateway();
  });

  afterEach(() => world.close());

  const expectError = ({ status, json }: Answer, expectedStatus: number, code: string) => {
    const error = apiError.parse(json);
    expect([status, error.code]).to.deep.equal([expectedStatus, code]);
    expect(error.next, "what to do next").to.be.a("string").and.not.equal("");
    return error;
  };

  async function create(body: object = {}) {
    const { status, json } = await gateway.call("POST", pathTo("sessions", {}), body);
    expect(status, JSON.stringify(json)).to.equal(201);
    return createdSession.parse(json);
  }

  const post = (sessionId: string, body: object, to = gateway) =>
    to.call("POST", pathTo("messages", { sessionId }), body);
  const eventsOf = async (sessionId: string) =>
    (await world.ledger.open("gateway").read(sessionId)).messages.flatMap(({ events }) => events);

  it("opens a session with its first message in one append", async () => {
    const { session, messageId } = await create({ message: { text: "\n  Fix the tests  \nplease" } });
    expect(session).to.include({ title: "Fix the tests", model: "script", provider: "local", queuedMessages: 1 });
    const { messages } = await world.ledger.open("gateway").read(session.id);
    expect(messages).to.have.length(1);
    expect(messages[0]?.events.map(({ type }) => type)).to.deep.equal(["SessionCreated", "MessagePosted"]);
    expect(messages[0]?.correlationId).to.equal(messageId);
  });

  it("names a session after its title, its message's first line, or its repository", async () => {
    expect((await create({ title: "Mine", message: { text: "x" } })).session.title).to.equal("Mine");
    expect((await create({ repository: { url: "/srv/git/api" } })).session.title).to.equal("api");
    expect((await create()).session.title).to.equal("New session");
  });

  it("shows a session as of the caller's own write, also when nothing was projected yet", async () => {
    const { session } = await create({ title: "t" });
    await post(session.id, { text: "one" });
    const path = pathTo("session", { sessionId: session.id });
    const fresh = sessionDetail.parse((await gateway.call("GET", path)).json);
    expect(fresh.queue.map(({ excerpt }) => excerpt)).to.deep.equal(["one"]);
    await world.project(session.id);
    await post(session.id, { text: "two" });
    const other = await world.gateway();
    const tail = sessionDetail.parse((await other.call("GET", path)).json);
    expect(tail.queue.map(({ excerpt }) => excerpt)).to.deep.equal(["one", "two"]);
  });

  it("C136: lists sessions in pages, the one written to last first", async () => {
    const ids: string[] = [];
    for (const title of ["a", "b", "c"]) ids.push((await create({ title })).session.id);
    await world.project(...ids);
    const first = sessionPage.parse((await gateway.call("GET", pathTo("sessions", {}, { limit: 2 }))).json);
    const cursor = first.next ?? "";
    const rest = sessionPage.parse((await gateway.call("GET", pathTo("sessions", {}, { limit: 2, cursor }))).json);
    expect([...first.sessions, ...rest.sessions].map(({ id }) => id)).to.have.members(ids);
    expect([first.sessions.length, rest.sessions.length, rest.next]).to.deep.equal([2, 1, null]);
    expectError(await gateway.call("GET", pathTo("sessions", {}, { cursor: "nonsense" })), 400, "invalid_request");
  });

  it("stores a message once: the same id with the same text again gets the same answer", async () => {
    const { session } = await create();
    const first = await post(session.id, { text: "hello", messageId: "msg_mine" });
    await post(session.id, { text: "another" });
    const again = await post(session.id, { text: "hello", messageId: "msg_mine" });
    expect([first.status, again.status]).to.deep.equal([201, 201]);
    expect(again.json).to.deep.equal(first.json);
    expectError(await post(session.id, { text: "other", messageId: "msg_mine" }), 409, "message_id_reused");
    const posted = (await eventsOf(session.id)).filter(({ type }) => type === "MessagePosted");
    expect(posted).to.have.length(2);
  });

  it("stores a message once when it is sent many times at the same time, to several gateways", async () => {
    const { session } = await create();
    const gateways = [gateway, await world.gateway(), await world.gateway()];
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        post(session.id, { text: "hello", messageId: "msg_mine" }, gateways[index % gateways.length]),
      ),
    );
    const sequences = new Set(answers.map(({ json }) => postedMessage.parse(json).sequence));
    expect(sequences.size).to.equal(1);
    expect((await eventsOf(session.id)).filter(({ type }) => type === "MessagePosted")).to.have.length(1);
  });

  it("stores a message once when the gateway dies between the append and the answer", async () => {
    const { session } = await create();
    const stored = Promise.withResolvers<void>();
    const dying = await world.gateway({
      ledger: diesAfterAppend(world.ledger.open("gateway"), stored.resolve),
      limits: { closeMs: 1 },
    });
    const unanswered = post(session.id, { text: "hello", messageId: "msg_mine" }, dying).then(
      () => "answered",
      () => "cut off",
    );
    await stored.promise;
    await dying.close();
    expect(await unanswered).to.equal("cut off");
    const again = postedMessage.parse((await post(session.id, { text: "hello", messageId: "msg_mine" })).json);
    const { messages } = await world.ledger.open("gateway").read(session.id);
    expect(messages.map(({ sequence }) => sequence)).to.include(again.sequence);
    expect((await eventsOf(session.id)).filter(({ type }) => type === "MessagePosted")).to.have.length(1);
  });

  it("C65: withdraws a message that the model has not seen, and says so when it has", async () => {
    const { session, messageId } = await create({ message: { text: "one" } });
    const second = postedMessage.parse((await post(session.id, { text: "two" })).json);
    await world.write(session.id, "brain", turnStarted(messageId ?? ""));
    const withdraw = (id: string) =>
      gateway.call("DELETE", pathTo("message", { sessionId: session.id, messageId: id }));
    expectError(await withdraw(messageId ?? ""), 409, "already_delivered");
    expect((await withdraw(second.messageId)).status).to.equal(200);
    expect((await withdraw(second.messageId)).status).to.equal(200);
    expectError(await withdraw("msg_unknown"), 404, "message_not_found");
  });

  it("stops the open turn, and refuses when there is none", async () => {
    const { session, messageId } = await create({ message: { text: "one" } });
    const stop = () => gateway.call("POST", pathTo("interrupt", { sessionId: session.id }));
    expectError(await stop(), 409, "no_open_turn");
    await world.write(session.id, "brain", turnStarted(messageId ?? ""));
    expect(interrupted.parse((await stop()).json).turnId).to.equal("trn_1");
    expect((await stop()).status).to.equal(202);
    const asked = (await eventsOf(session.id)).filter(({ type }) => type === "InterruptRequested");
    expect(asked).to.have.length(1);
  });

  it("ends a session once, and takes no message after it", async () => {
    const { session } = await create();
    const end = () => gateway.call("DELETE", pathTo("session", { sessionId: session.id }));
    expect(endedSession.parse((await end()).json).status).to.equal("ending");
    expect((await end()).status).to.equal(202);
    expectError(await post(session.id, { text: "late" }), 409, "session_ended");
    await world.write(session.id, "brain", { type: "SessionEnded", data: {} });
    expect(endedSession.parse((await end()).json).status).to.equal("ended");
  });

  it("reads the ledger by cursor, from the mirror and from its tail, each message once", async () => {
    const { session } = await create();
    for (const text of ["1", "2", "3", "4"]) await post(session.id, { text });
    await world.project(session.id);
    for (const text of ["5", "6"]) await post(session.id, { text });
    const texts: string[] = [];
    for (let after = 0, more = true; more; ) {
      const path = pathTo("events", { sessionId: session.id }, { after, limit: 2 });
      const page = eventsPage.parse((await gateway.call("GET", path)).json);
      expect(page.messages.length).to.be.within(1, 2);
      texts.push(
        ...page.messages.flatMap(({ events }) => events.flatMap(({ data }) => ("text" in data ? [data.text] : []))),
      );
      ({ cursor: after, more } = page);
    }
    expect(texts).to.deep.equal(["1", "2", "3", "4", "5", "6"]);
  });

  it("C138: leaves out nothing of the ledger where the mirror has a hole", async () => {
    const { session } = await create();
    for (const text of ["1", "2", "3", "4"]) await post(session.id, { text });
    await world.project(session.id);
    const { messages } = await world.ledger.open("gateway").read(session.id);
    const [first, , lost] = messages.map(({ sequence }) => sequence);
    await world.database.pool.query("delete from ledger_message where sequence = $1", [lost]);
    for (const after of [0, first]) {
      for (const limit of [1, 2, 3, 100]) {
        const path = pathTo("events", { sessionId: session.id }, { after, limit });
        const page = eventsPage.parse((await gateway.call("GET", path)).json);
        const expected = messages.map(({ sequence }) => sequence).filter((sequence) => sequence > (after ?? 0));
        expect(page.messages.map(({ sequence }) => sequence)).to.deep.equal(expected.slice(0, limit));
        expect(page.more).to.equal(expected.length > limit);
      }
    }
  });

  it("ends a page early when its messages are large", async () => {
    const { session } = await create();
    const texts = Array.from({ length: 11 }, (_, index) => `${index}${"x".repeat(999_000)}`);
    for (const text of texts) await post(session.id, { text });
    const sizes: number[] = [];
    for (let after = 0, more = true; more; ) {
      const path = pathTo("events", { sessionId: session.id }, { after, limit: 1_000 });
      const page = eventsPage.parse((await gateway.call("GET", path)).json);
      sizes.push(page.messages.length);
      ({ cursor: after, more } = page);
    }
    expect(sizes.length).to.be.greaterThan(1);
    expect(sizes.reduce((sum, size) => sum + size)).to.equal(texts.length + 1);
  });

  it("answers a cursor at the end with an empty page, and an unknown session with an error", async () => {
    const { session } = await create();
    await world.project(session.id);
    const at = pathTo("events", { sessionId: session.id }, { after: session.lastSequence });
    expect((await gateway.call("GET", at)).json).to.deep.equal({
      messages: [],
      cursor: session.lastSequence,
      oldest: session.lastSequence,
      more: false,
    });
    for (const after of [0, 5]) {
      expectError(
        await gateway.call("GET", pathTo("events", { sessionId: "ses_none" }, { after })),
        404,
        "session_not_found",
      );
    }
  });

  it("knows no session that was not opened", async () => {
    const sessionId = "ses_none";
    for (const [method, path] of [
      ["GET", pathTo("session", { sessionId })],
      ["DELETE", pathTo("session", { sessionId })],
      ["POST", pathTo("interrupt", { sessionId })],
      ["GET", pathTo("stream", { sessionId })],
      ["GET", pathTo("files", { sessionId })],
    ] as const) {
      expectError(await gateway.call(method, path), 404, "session_not_found");
    }
    expectError(await post(sessionId, { text: "x" }), 404, "session_not_found");
  });

  it("refuses what does not fit, saying what is wrong with it", async () => {
    const refused = async (body: object, status: number, code: string) =>
      expectError(await gateway.call("POST", pathTo("sessions", {}), body), status, code);
    const odd = await refused({ titel: "x", message: { text: "" } }, 400, "invalid_request");
    expect(odd.issues?.map(({ path }) => path)).to.include.members(["body.message.text"]);
    await refused({ model: "none" }, 422, "model_unknown");
    await refused({ provider: "none" }, 422, "provider_unknown");
    await refused({ repository: { url: "https://a:b@github.com/a/b" } }, 422, "repository_url_has_credentials");
    await refused({ repository: { url: "./here" } }, 422, "repository_path_not_absolute");
    await refused({ repository: { url: "ext::sh" } }, 422, "repository_url_invalid");
    expectError(await gateway.call("GET", "/v1/sessions/not-an-id"), 400, "invalid_request");
    expectError(await gateway.call("GET", pathTo("sessions", {}, { limit: 100_000 })), 400, "invalid_request");
    expectError(await gateway.call("GET", `${pathTo("sessions", {})}?limit=1&limit=2`), 400, "invalid_request");
    expectError(await gateway.call("GET", `${pathTo("sessions", {})}?limt=1`), 400, "invalid_request");
  });
});

/** The process dies as soon as the message is stored: nothing after the append happens. */
function diesAfterAppend(ledger: Ledger, stored: () => void): Ledger {
  return {
    read: ledger.read,
    append: async (...request) => {
      await ledger.append(...request);
      stored();
      return new Promise(() => undefined);
    },
  };
}
