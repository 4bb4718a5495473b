// A service whose consumers let a batch out at once: the order over replicas that come, stop, hang and die.
import { expect } from "chai";
import type { NatsConnection } from "nats";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany, lastOf, versionOf } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";
import { readLag } from "./lag.ts";

const SHARDS = 1;
const CONSUMER = "projector-0";

describe("a shard of which a batch is out at once", () => {
  const blobs = memoryBlobs();
  let server: TestNats;
  let setup: NatsConnection;
  let seen: { by: string; sequence: number }[];

  beforeEach(async () => {
    server = await startTestNats({ shards: SHARDS });
    setup = await server.connect("setup");
    seen = [];
  });
  afterEach(() => server.close());

  it("is worked on by one replica, while another one stands by until that stops", async () => {
    const { append } = await writer();
    const one = await replica("one");
    await handled(await append(1));
    const other = await replica("other");
    await handled(await append(100));
    expect(seen.map(({ by }) => by)).to.not.include("other");
    await one.close();
    const after = await append(10);
    await handled(after);
    expect(seen.filter(({ by }) => by === "other").map(({ sequence }) => sequence)).to.deep.equal(sequencesOf(after));
    await other.close();
    expect(sequencesOf(seen)).to.deep.equal(inOrder(seen));
  });

  it("comes again to another replica, in order and before what follows it, when one dies with a batch in hand", async () => {
    const { append } = await writer();
    const manager = await setup.jetstreamManager();
    const before = await append(20);
    const dead = await replica("dead", hangs);
    await dead.reached;
    await dead.nats.close();
    const after = await append(20);
    const next = await replica("next");
    await handled(after);
    expect(seen.map(({ by }) => by)).to.not.include("dead");
    expect(sequencesOf(seen)).to.deep.equal(sequencesOf([...before, ...after]));
    // A batch that a dead replica had comes again once.
    expect((await manager.consumers.info(LEDGER_STREAM, CONSUMER)).delivered.consumer_seq).to.be.at.most(60);
    await next.close();
    release();
    await dead.close();
  });

  it("keeps its order when replicas start at once and get in each other's way", async () => {
    const { append } = await writer();
    const appending = append(300);
    const replicas = await Promise.all(["a", "b", "c"].map((name) => replica(name)));
    const all = await appending;
    await handled(all);
    await Promise.all(replicas.map(({ close }) => close()));
    expect([...new Set(sequencesOf(seen))]).to.deep.equal(sequencesOf(all));
  });

  it("goes to another replica when the one that asks for its messages does not work on them", async () => {
    const { append } = await writer();
    const hanging = await replica("hanging", hangs);
    const first = await append(5);
    await hanging.reached;
    hanging.hang();
    const next = await replica("next");
    await handled(first);
    expect([...new Set(sequencesOf(seen))]).to.deep.equal(sequencesOf(first));
    await next.close();
    release();
    await hanging.close();
  });

  it("is worked off one by one where set-up was by an earlier version", async () => {
    const manager = await setup.jetstreamManager();
    await manager.consumers.update(LEDGER_STREAM, CONSUMER, { max_ack_pending: 1 });
    const { append } = await writer();
    const all = await append(100);
    const one = await replica("one");
    await handled(all);
    await one.close();
    expect(sequencesOf(seen)).to.deep.equal(sequencesOf(all));
    // Nothing had to wait for its acknowledgement to be overdue.
    expect((await manager.consumers.info(LEDGER_STREAM, CONSUMER)).delivered.consumer_seq).to.equal(all.length);
  });

  it("keeps to its bytes with large messages", async () => {
    const ledger = await gateway();
    const session = newId("session");
    const text = "x".repeat(100_000);
    const large = { type: "MessagePosted", data: { messageId: newId("message"), text, delivery: "queue" } } as const;
    let version = { sequence: 0, hash: "" };
    for (let index = 0; index < 60; index++) {
      version = versionOf(
        await ledger.append(session, version, [large], { correlationId: session, causationId: null }),
      );
    }
    const batches: number[] = [];
    const one = await replica("one", async (messages) => {
      batches.push(messages.reduce((sum, { bytes }) => sum + bytes.byteLength, 0));
    });
    await handled([version]);
    await one.close();
    expect(seen).to.have.length(60);
    expect(Math.max(...batches)).to.be.within(1_000_000, 4 * 1024 * 1024 + 300_000);
  });

  let release = (): void => undefined;

  function hangs(): Promise<void> {
    return new Promise((resolve) => {
      release = resolve;
    });
  }

  async function gateway() {
    return openLedger({ nats: await server.connect("gateway"), writer: "gateway", shards: SHARDS, blobs });
  }

  async function writer() {
    const ledger = await gateway();
    const session = newId("session");
    let last: LedgerMessage | undefined;
    const append = async (count: number) => {
      const appended = await appendMany(ledger, session, count, last && versionOf(last));
      last = lastOf(appended);
      return appended;
    };
    return { append };
  }

  /** A projector over a connection of its own; what it handles is seen once `before` resolves. */
  async function replica(
    name: string,
    before: (messages: readonly LedgerMessage[]) => Promise<void> = async () => undefined,
  ) {
    const nats = await server.connect("projector");
    const connection: NatsConnection = Object.create(nats);
    const reached = Promise.withResolvers<void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      reached.resolve();
      await before(messages);
      seen.push(...messages.map(({ sequence }) => ({ by: name, sequence })));
    };
    const feed = openLedgerFeed({ nats: connection, shards: SHARDS, blobs, log: silentLog });
    const running = await feed.react({ consumer: "projector", handle });
    const hang = () => {
      // What it has is not renewed and not acknowledged, and what it asked for stays asked for.
      connection.publish = () => undefined;
    };
    return { nats, reached: reached.promise, hang, close: () => running.close() };
  }

  async function handled(messages: readonly { sequence: number }[]): Promise<void> {
    const { sequence } = lastOf(messages);
    while (!seen.some((entry) => entry.sequence === sequence)) await readLag(setup, SHARDS);
  }
});

function sequencesOf(messages: readonly { sequence: number }[]): number[] {
  return messages.map(({ sequence }) => sequence);
}

function inOrder(messages: readonly { sequence: number }[]): number[] {
  return sequencesOf(messages).sort((one, other) => one - other);
}
