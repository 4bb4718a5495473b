import { expect } from "chai";
import { pathTo } from "#schemas/api/paths.ts";
import { type EventsPage, eventsPage } from "#schemas/api/stream.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Ledger, LedgerMessage } from "#shared/ledger/ledger.ts";
import { SNAPSHOT_EVERY_MESSAGES } from "#shared/ledger/snapshots.ts";
import { appendMany, versionOf } from "#shared/testing/messages.ts";
import { connectSse } from "./testing/sse-client.ts";
import { type Gateway, openWorld, type World } from "./testing/world.ts";

describe("a long session at the gateway", () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld();
  });
  afterEach(() => world.close());

  async function sessionOf(messages: number): Promise<{ id: string; all: LedgerMessage[] }> {
    const id = newId("session");
    const data = { title: "Long", model: "script", provider: "local" };
    const first = await world.write(id, "gateway", { type: "SessionCreated", data });
    const rest = await appendMany(world.ledger.open("gateway"), id, messages - 1, versionOf(first));
    return { id, all: [first, ...rest] };
  }

  async function page(gateway: Gateway, sessionId: string, query: object): Promise<EventsPage> {
    const { status, json } = await gateway.call("GET", pathTo("events", { sessionId }, { ...query }));
    expect(status, JSON.stringify(json).slice(0, 300)).to.equal(200);
    return eventsPage.parse(json);
  }

  async function backwards(gateway: Gateway, sessionId: string, limit: number): Promise<number[][]> {
    const pages: number[][] = [];
    for (let before: number | "end" = "end"; ; ) {
      const { messages, oldest, more } = await page(gateway, sessionId, { before, limit });
      pages.unshift(messages.map(({ sequence }) => sequence));
      if (!more) return pages;
      before = oldest;
    }
  }

  /** A ledger of the gateway that notes how many messages each read gave. */
  function counting(): { ledger: Ledger; reads: number[] } {
    const reads: number[] = [];
    const real = world.ledger.open("gateway");
    const read: Ledger["read"] = async (...args) => {
      const found = await real.read(...args);
      reads.push(found.messages.length);
      return found;
    };
    return { reads, ledger: { append: (...args) => real.append(...args), read } };
  }

  it("C134: opens at its end and goes back page by page, and reads no more than a page shows", async () => {
    const { id, all } = await sessionOf(300);
    await world.project(id);
    const { ledger, reads } = counting();
    const gateway = await world.gateway({ ledger });
    const first = await page(gateway, id, { before: "end", limit: 50 });
    expect(first.messages.map(({ sequence }) => sequence)).to.deep.equal(
      all.slice(-50).map(({ sequence }) => sequence),
    );
    expect(first).to.include({ more: true, cursor: all.at(-1)?.sequence, oldest: all.at(-50)?.sequence });
    expect((await backwards(gateway, id, 70)).flat()).to.deep.equal(all.map(({ sequence }) => sequence));
    expect(reads.every((count) => count === 0)).to.equal(true);
  });

  it("goes back the same way while the mirror lags, has a hole, or has nothing yet", async () => {
    const { id, all } = await sessionOf(40);
    const gateway = await world.gateway();
    const sequences = all.map(({ sequence }) => sequence);
    for (const limit of [7, 40, 100]) expect((await backwards(gateway, id, limit)).flat()).to.deep.equal(sequences);
    await world.project(id);
    const drop = "delete from ledger_message where session = $1 and sequence = any($2)";
    await world.database.pool.query(drop, [id, sequences.slice(30)]);
    for (const limit of [7, 40, 100]) expect((await backwards(gateway, id, limit)).flat()).to.deep.equal(sequences);
    await world.database.pool.query(drop, [id, sequences.slice(10, 12)]);
    for (const limit of [7, 40, 100]) expect((await backwards(gateway, id, limit)).flat()).to.deep.equal(sequences);
  });

  it("says that there is no such session", async () => {
    const gateway = await world.gateway();
    const { status } = await gateway.call("GET", pathTo("events", { sessionId: "ses_none" }, { before: "end" }));
    expect(status).to.equal(404);
  });

  it("C134: is streamed from its last messages on, without gap or repeat", async () => {
    const { id, all } = await sessionOf(100);
    await world.project(id);
    const gateway = await world.gateway();
    const path = pathTo("stream", { sessionId: id }, { last: 5 });
    const client = await connectSse(`${gateway.url}${path}`);
    try {
      const expected = all.slice(-5).map(({ sequence }) => sequence);
      expect(await client.ids(5)).to.deep.equal(expected);
      await gateway.call("POST", pathTo("messages", { sessionId: id }), { text: "next" });
      const next = (await world.ledger.open("gateway").read(id)).version.sequence;
      expect(await client.ids(1)).to.deep.equal([next]);
    } finally {
      client.close();
    }
  });

  it("reads only its tail for a request, once its fold was kept", async () => {
    const { id } = await sessionOf(SNAPSHOT_EVERY_MESSAGES + 1);
    await world.project(id);
    const first = counting();
    await end(await world.gateway({ ledger: first.ledger }), id);
    expect(Math.max(...first.reads)).to.equal(SNAPSHOT_EVERY_MESSAGES + 1);
    while ((await world.database.pool.query("select 1 from session_snapshot")).rowCount === 0) await nextLook();
    const second = counting();
    await end(await world.gateway({ ledger: second.ledger }), id);
    expect(Math.max(...second.reads)).to.equal(1);
  });

  async function end(gateway: Gateway, sessionId: string): Promise<void> {
    const { status } = await gateway.call("DELETE", pathTo("session", { sessionId }));
    expect(status).to.equal(202);
  }

  function nextLook(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }
});
