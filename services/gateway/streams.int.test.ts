import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";
import { pathTo } from "#schemas/api/paths.ts";
import { createdSession } from "#schemas/api/session.ts";
import { ledgerMessage, liveEvent } from "#schemas/api/stream.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { connectSse, type SseClient } from "./testing/sse-client.ts";
import { type Gateway, openWorld, TOKEN, type World } from "./testing/world.ts";

const delta: LiveMessage = { kind: "text-delta", epoch: 1, number: 1, turnId: "trn_1", replyId: "rpl_1", text: "Hi" };

describe("the gateway's streams", () => {
  let world: World;
  let gateway: Gateway;
  let clients: SseClient[];

  beforeEach(async () => {
    world = await openWorld();
    gateway = await world.gateway();
    clients = [];
  });

  afterEach(async () => {
    for (const client of clients) client.close();
    await world.close();
  });

  async function openSession(texts: readonly string[] = [], to = gateway) {
    const { json } = await to.call("POST", pathTo("sessions", {}), { title: "t" });
    const { session } = createdSession.parse(json);
    for (const text of texts) await post(session.id, text);
    return session.id;
  }

  const post = (sessionId: string, text: string) => gateway.call("POST", pathTo("messages", { sessionId }), { text });
  const sequencesOf = async (sessionId: string) =>
    (await world.ledger.open("gateway").read(sessionId)).messages.map(({ sequence }) => sequence);

  async function stream(sessionId: string, headers = {}, query = {}, from = gateway) {
    const client = await connectSse(`${from.url}${pathTo("stream", { sessionId }, query)}`, headers);
    clients.push(client);
    return client;
  }

  it("sends all messages after the cursor, then those that come, as they stand in the ledger", async () => {
    const session = await openSession(["1", "2"]);
    const client = await stream(session);
    const first = await client.next();
    const message = ledgerMessage.parse(JSON.parse(first.data));
    expect(message.events[0]?.type).to.equal("SessionCreated");
    expect(first).to.include({ event: "ledger", id: String(message.sequence) });
    await client.ids(2);
    await post(session, "3");
    const live = ledgerMessage.parse(JSON.parse((await client.next()).data));
    expect(live.events[0]?.data).to.include({ text: "3" });
    expect(live.prev).to.match(/^[0-9a-f]{64}$/);
  });

  it("shows each message once when the client reconnects after any of them", async () => {
    const session = await openSession(["1", "2", "3"]);
    await world.project(session);
    await post(session, "4");
    const all = await sequencesOf(session);
    const boundaries = all.length;
    for (let seen = 0; seen <= boundaries; seen++) {
      const before = await stream(session);
      const ids = await before.ids(seen);
      before.close();
      const lastId = ids.at(-1);
      const after = await stream(session, lastId === undefined ? {} : { "last-event-id": String(lastId) });
      await post(session, `after ${seen}`);
      all.push((await sequencesOf(session)).at(-1) ?? 0);
      expect([...ids, ...(await after.ids(all.length - ids.length))]).to.deep.equal(all);
      after.close();
    }
  });

  it("takes its cursor from the query, and from Last-Event-ID before that", async () => {
    const session = await openSession(["1", "2"]);
    const [first, second, third] = await sequencesOf(session);
    expect(await (await stream(session, {}, { after: first })).ids(2)).to.deep.equal([second, third]);
    const both = await stream(session, { "last-event-id": String(second) }, { after: 0 });
    expect(await both.ids(1)).to.deep.equal([third]);
  });

  it("leaves out nothing and repeats nothing while messages come as clients connect", async () => {
    const session = await openSession();
    const count = 40;
    const posting = (async () => {
      for (let index = 0; index < count; index++) await post(session, String(index));
    })();
    const early = await Promise.all(Array.from({ length: 8 }, () => stream(session)));
    await posting;
    const all = await sequencesOf(session);
    for (const client of early) expect(await client.ids(all.length)).to.deep.equal(all);
  });

  it("shows what was written while the gateway was starting", async () => {
    const session = await openSession(["1"]);
    const [late] = await Promise.all([world.gateway(), post(session, "2"), post(session, "3")]);
    const client = await stream(session, {}, {}, late);
    await post(session, "4");
    const all = await sequencesOf(session);
    expect(await client.ids(all.length)).to.deep.equal(all);
  });

  it("sends live messages between, without an id", async () => {
    const session = await openSession();
    const client = await stream(session);
    await client.ids(1);
    while (world.live.publish(session, delta) === 0) await new Promise(setImmediate);
    const { event, id, data } = await client.next();
    expect([event, id]).to.deep.equal(["live", undefined]);
    expect(liveEvent.parse(JSON.parse(data))).to.deep.equal({ session, message: delta });
  });

  it("C42: shows by a comment that the stream lives while nothing happens", async () => {
    const quiet = await world.gateway({ limits: { heartbeatMs: 5 } });
    const session = await openSession();
    const client = await stream(session, {}, {}, quiet);
    expect((await client.comment()).trim()).to.equal("open");
    await client.comment();
    await client.comment();
  });

  it("C50: cuts off a client that does not keep up, which resumes from its cursor, and delays nobody else", async () => {
    const bounded = await world.gateway({ limits: { mailboxMessagesMax: 5, stallMs: 600_000 } });
    await expectSlowReaderCut(bounded, bounded);
  });

  it("C50: cuts off a client whose socket takes nothing, however little waits for it", async () => {
    const bounded = await world.gateway({
      limits: { mailboxMessagesMax: 1_000_000, mailboxBytesMax: 1e12, stallMs: 1 },
    });
    await expectSlowReaderCut(bounded, gateway);
  });

  async function expectSlowReaderCut(of: Gateway, another: Gateway) {
    const session = await openSession();
    const slow = await slowReader(of.url, pathTo("stream", { sessionId: session }));
    const fast = await stream(session, {}, {}, another);
    const seen = await fast.ids(1);
    const text = "x".repeat(150_000);
    while (!of.logged.some((line) => line.includes("cut off"))) {
      await post(session, text);
      seen.push(...(await fast.ids(1)));
    }
    expect(seen).to.deep.equal(await sequencesOf(session));
    const got = await slow.rest();
    expect(got.length).to.be.lessThan(seen.length);
    const resumed = await stream(session, { "last-event-id": String(got.at(-1) ?? 0) }, {}, another);
    expect([...got, ...(await resumed.ids(seen.length - got.length))]).to.deep.equal(seen);
  }

  it("streams the whole install in the ledger's order, from a cursor and from now", async () => {
    const [one, two] = [await openSession(["1"]), await openSession(["2"])];
    const past = await connectSse(`${gateway.url}${pathTo("installStream", {}, { after: 0 })}`);
    const now = await connectSse(`${gateway.url}${pathTo("installStream", {})}`);
    clients.push(past, now);
    await post(one, "3");
    await post(two, "4");
    const all = [...(await sequencesOf(one)), ...(await sequencesOf(two))].sort((a, b) => a - b);
    expect(await past.ids(all.length)).to.deep.equal(all);
    expect(await now.ids(2)).to.deep.equal(all.slice(-2));
    const resumed = await connectSse(`${gateway.url}${pathTo("installStream", {})}`, {
      "last-event-id": String(all[2]),
    });
    clients.push(resumed);
    expect(await resumed.ids(all.length - 3)).to.deep.equal(all.slice(3));
  });

  it("narrows the install's stream by session, writer and type", async () => {
    const [one, two] = [await openSession(["1"]), await openSession(["2"])];
    const ended = await world.write(one, "brain", { type: "SessionEnded", data: {} });
    const narrowed = async (query: object, count: number) => {
      const client = await connectSse(`${gateway.url}${pathTo("installStream", {}, { after: 0, ...query })}`);
      clients.push(client);
      return client.ids(count);
    };
    expect(await narrowed({ session: two }, 2)).to.deep.equal(await sequencesOf(two));
    expect(await narrowed({ writer: "brain" }, 1)).to.deep.equal([ended.sequence]);
    expect(await narrowed({ type: "SessionEnded" }, 1)).to.deep.equal([ended.sequence]);
    expect(await narrowed({ type: "MessagePosted", session: two }, 1)).to.deep.equal((await sequencesOf(two)).slice(1));
  });

  it("has so many streams and no more", async () => {
    const small = await world.gateway({ limits: { streamsMax: 2 } });
    const session = await openSession();
    const [one] = [await stream(session, {}, {}, small), await stream(session, {}, {}, small)];
    expect((await stream(session, {}, {}, small)).status).to.equal(429);
    one.close();
    while ((await stream(session, {}, {}, small)).status !== 200) await new Promise(setImmediate);
  });

  it("ends its streams when it stops, and the next gateway goes on from the cursor", async () => {
    const session = await openSession(["1"]);
    const client = await stream(session);
    const ids = await client.ids(2);
    await gateway.close();
    await client.ended;
    gateway = await world.gateway();
    await post(session, "2");
    const resumed = await stream(session, { "last-event-id": String(ids.at(-1)) });
    expect([...ids, ...(await resumed.ids(1))]).to.deep.equal(await sequencesOf(session));
  });
});

/** A client that asks for a stream and reads none of it before `rest`, which gives the ids of all whole events. */
async function slowReader(url: string, path: string) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const closed = once(socket, "close");
  const broken = once(socket, "error");
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`);
  await once(socket, "connect");
  return {
    rest: async () => {
      let received = "";
      socket.setEncoding("utf8").on("data", (text: string) => {
        received += text;
      });
      await Promise.race([closed, broken]);
      const whole = received.slice(0, received.lastIndexOf("\n\n"));
      return [...whole.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    },
  };
}
