import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { pathTo } from "#schemas/api/paths.ts";
import { createdSession, postedMessage } from "#schemas/api/session.ts";
import { eventsPage } from "#schemas/api/stream.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import { openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { openLivePublisher, openLiveSubscriber } from "#shared/nats/live.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { startGateway } from "./gateway.ts";
import { connectSse } from "./testing/sse-client.ts";
import { TOKEN } from "./testing/world.ts";

const SHARDS = 2;

describe("the gateway on a real NATS and PostgreSQL", () => {
  const resources = new Resources();
  let url: string;
  let liveOf: ReturnType<typeof openLivePublisher>;

  before(async () => {
    const nats = resources.add("nats", await startTestNats({ shards: SHARDS }), ({ close }) => close());
    const server = resources.add("postgres", await testDatabase(), ({ close }) => close());
    const database = resources.add("database", await openDatabase(server.url), ({ close }) => close());
    const folder = await mkdtemp(join(tmpdir(), "pistis-blobs-"));
    resources.add("blobs", folder, () => rm(folder, { recursive: true }));
    await migrate(database);
    const blobs = await openBlobs(folder);
    const connection = await nats.connect("gateway");
    const mirror = mirrorReader(database);
    liveOf = openLivePublisher({ nats: await nats.connect("brain") });
    resources.add("live publisher", liveOf, ({ close }) => close());
    const gateway = await startGateway({
      host: "127.0.0.1",
      port: 0,
      adminToken: TOKEN,
      ledger: openLedger({ nats: connection, writer: "gateway", shards: SHARDS, blobs, mirror }),
      feed: openLedgerFeed({ nats: connection, shards: SHARDS, blobs, log: silentLog }),
      live: openLiveSubscriber({ nats: await nats.connect("gateway") }),
      database,
      blobs,
      openLink: () => expect.fail("No sandbox is asked"),
      choices: { models: ["script"], defaultModel: "script", providers: ["local"], defaultProvider: "local" },
      checks: { nats: async () => void (await connection.rtt()) },
      log: silentLog,
    });
    ({ url } = resources.add("gateway", gateway, ({ close }) => close()));
  });

  after(() => resources.close());

  const request = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, { method, headers, ...content });
    return { status: response.status, json: await response.json() };
  };

  it("is ready", async () => expect((await request("GET", "/readyz")).status).to.equal(200));

  it("stores messages, also one that is larger than a ledger message, and streams them in order", async () => {
    const { session } = createdSession.parse((await request("POST", pathTo("sessions", {}), { title: "t" })).json);
    const path = pathTo("messages", { sessionId: session.id });
    const client = await connectSse(`${url}${pathTo("stream", { sessionId: session.id })}`);
    const texts = ["one", "x".repeat(700_000), "three"];
    const sequences = [session.lastSequence];
    for (const text of texts)
      sequences.push(postedMessage.parse((await request("POST", path, { text })).json).sequence);
    expect(await client.ids(4)).to.deep.equal(sequences);
    client.close();
    const { json } = await request("GET", pathTo("events", { sessionId: session.id }, { after: session.lastSequence }));
    const stored = eventsPage.parse(json).messages.flatMap(({ events }) => events.map(({ data }) => data));
    expect(stored.map((data) => ("text" in data ? data.text : ""))).to.deep.equal(texts);
  });

  it("shows live messages of the session alone", async () => {
    const { session } = createdSession.parse((await request("POST", pathTo("sessions", {}), { title: "t" })).json);
    const client = await connectSse(`${url}${pathTo("stream", { sessionId: session.id })}`);
    await client.ids(1);
    const shown = client.next();
    let arrived = false;
    shown.then(
      () => {
        arrived = true;
      },
      () => undefined,
    );
    const delta = { kind: "text-delta", epoch: 1, number: 0, turnId: "trn_1", replyId: "rpl_1" } as const;
    // Live traffic from before the subscription is lost, so it is said until it is heard.
    while (!arrived) {
      liveOf.publish("ses_other", { ...delta, text: "not for this session" });
      liveOf.publish(session.id, { ...delta, text: "hello" });
      await request("GET", "/healthz");
    }
    expect((await shown).data)
      .to.contain('"text":"hello')
      .and.not.contain("not for");
    client.close();
  });

  it("streams the install from the beginning", async () => {
    const client = await connectSse(`${url}${pathTo("installStream", {}, { after: 0 })}`);
    expect(await client.ids(3)).to.deep.equal([1, 2, 3]);
    client.close();
  });
});
