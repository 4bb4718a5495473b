// What replicas of a service that stop, or are slow to, cost the others and themselves.
import { expect } from "chai";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany, lastOf, versionOf } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { ACK_WAIT_MS } from "./consumer.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";
import { readLag } from "./lag.ts";

const SHARDS = 1;
const STOPS = 40;

describe("a replica that stops", () => {
  const blobs = memoryBlobs();
  let server: TestNats;

  beforeEach(async () => {
    server = await startTestNats({ shards: SHARDS });
  });
  afterEach(() => server.close());

  it("does not wait for what another one has acknowledged in its place", async () => {
    const ledger = await gateway();
    const [session, count] = [newId("session"), 10];
    const appended = await appendMany(ledger, session, count);
    const released = Promise.withResolvers<void>();
    const first = await replica(() => released.promise);
    const second = await replica();
    while ((await ofBrain()).listening === 0);
    released.resolve();
    // The second gets every other message, the last one among them, of the batch that the first has read ahead.
    await second.handled(lastOf(appended));
    await first.close();
    await second.close();
    expect(first.seen).to.deep.equal(appended.map(({ sequence }) => sequence));
    expect((await ofBrain()).lag).to.equal(0);
  });

  it("gives back at once what was on its way to it", async () => {
    const ledger = await gateway();
    const session = newId("session");
    let [last] = await appendMany(ledger, session, 1);
    const waits: number[] = [];
    for (let stop = 0; stop < STOPS && last !== undefined; stop++) {
      const stopping = await replica();
      await stopping.handled(last);
      while ((await ofBrain()).listening === 0);
      const appending = appendMany(ledger, session, 1, versionOf(last));
      for (let turn = 0; turn < stop % 8; turn++) await new Promise(setImmediate);
      const closing = stopping.close();
      last = lastOf(await appending);
      await closing;
      const next = await replica();
      const from = performance.now();
      if (!stopping.seen.includes(last.sequence)) await next.handled(last);
      waits.push(performance.now() - from);
      await next.close();
      last = lastOf(await appendMany(ledger, session, 1, versionOf(last)));
    }
    expect(waits).to.have.length(STOPS);
    expect(Math.max(...waits)).to.be.lessThan(ACK_WAIT_MS * 0.9);
  });

  async function gateway() {
    return openLedger({ nats: await server.connect("gateway"), writer: "gateway", shards: SHARDS, blobs });
  }

  /** A brain that reacts over a connection of its own, and handles once `before` resolves. */
  async function replica(before: () => Promise<void> = async () => undefined) {
    const feed = openLedgerFeed({ nats: await server.connect("brain"), shards: SHARDS, blobs, log: silentLog });
    const seen: number[] = [];
    const waiting = new Map<number, () => void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      await before();
      seen.push(...messages.map(({ sequence }) => sequence));
      for (const { sequence } of messages) waiting.get(sequence)?.();
    };
    const running = await feed.react({ consumer: "brain", handle });
    const handled = async ({ sequence }: LedgerMessage) => {
      if (!seen.includes(sequence)) await new Promise<void>((resolve) => waiting.set(sequence, resolve));
    };
    return { seen, handled, close: () => running.close() };
  }

  async function ofBrain() {
    const { consumers } = await readLag(await setup(), SHARDS);
    return lastOf(consumers.filter(({ service }) => service === "brain"));
  }

  let setupOf: { server: TestNats; connection: ReturnType<TestNats["connect"]> } | undefined;

  function setup() {
    if (setupOf?.server !== server) setupOf = { server, connection: server.connect("setup") };
    return setupOf.connection;
  }
});
