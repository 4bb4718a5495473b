// Where all who write are in one process: its services hear of a message before their consumers deliver it.
import { expect } from "chai";
import type { NatsConnection } from "nats";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { RecentMessages } from "#shared/ledger/recent.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany, lastOf, versionOf } from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";
import { readLag } from "./lag.ts";

describe("a held shard", () => {
  const blobs = memoryBlobs();
  let server: TestNats;
  let setup: NatsConnection;

  beforeEach(async () => {
    server = await startTestNats({ shards: 1 });
    setup = await server.connect("setup");
  });
  afterEach(() => server.close());

  it("is handled while its first message is out, and acknowledged to the end once it is quiet", async () => {
    const { ledger, react } = await openProcess();
    const { session, first } = await begun({ ledger, react });
    const rest = await appendMany(ledger, session, 20, versionOf(first));
    await react.handled(lastOf(rest));
    expect(await ofBrain()).to.deep.include({ acknowledged: first.sequence - 1, out: 1 });
    while ((await ofBrain()).lag > 0);
    expect(react.ids()).to.deep.equal([first.id, ...rest.map(({ id }) => id)]);
    await react.close();
  });

  it("is acknowledged to what was handled when the service stops", async () => {
    const { ledger, react } = await openProcess();
    const { session, first } = await begun({ ledger, react });
    const rest = await appendMany(ledger, session, 20, versionOf(first));
    await react.handled(lastOf(rest));
    await react.close();
    expect((await ofBrain()).lag).to.equal(0);
  });

  it("comes again, in order, to another process when the one that held it is gone", async () => {
    const dead = await openProcess();
    const { session, first } = await begun(dead);
    const rest = await appendMany(dead.ledger, session, 5, versionOf(first));
    await dead.react.handled(lastOf(rest));
    await dead.nats.close();
    const { react } = await openProcess();
    await react.handled(lastOf(rest));
    expect(react.ids()).to.deep.equal([first.id, ...rest.map(({ id }) => id)]);
    await react.close();
    await dead.react.close();
  });

  it("hears of a message from elsewhere too", async () => {
    const { ledger, react } = await openProcess();
    const { session, first } = await begun({ ledger, react });
    const elsewhere = openLedger({ nats: await server.connect("gateway"), writer: "gateway", shards: 1, blobs });
    const foreign = await appendMany(elsewhere, session, 1, versionOf(first));
    const own = await appendMany(ledger, session, 1, versionOf(lastOf(foreign)));
    await react.handled(lastOf(own));
    expect(react.ids()).to.deep.equal([first.id, ...[...foreign, ...own].map(({ id }) => id)]);
    await react.close();
  });

  /** A gateway that writes and a brain that reacts, in one process. */
  async function openProcess() {
    const recent = new RecentMessages({ hearsAll: true });
    const gateway = await server.connect("gateway");
    const nats = await server.connect("brain");
    const ledger = openLedger({ nats: gateway, writer: "gateway", shards: 1, blobs, recent });
    const feed = openLedgerFeed({ nats, shards: 1, blobs, recent, log: silentLog });
    const seen: LedgerMessage[] = [];
    const waiting = new Map<number, () => void>();
    const running = await feed.react({
      consumer: "brain",
      handle: async (messages) => {
        seen.push(...messages);
        for (const { sequence } of messages) waiting.get(sequence)?.();
      },
    });
    const handled = async ({ sequence }: LedgerMessage) => {
      if (seen.some((message) => message.sequence === sequence)) return;
      await new Promise<void>((resolve) => waiting.set(sequence, resolve));
    };
    return { ledger, nats, react: { handled, close: () => running.close(), ids: () => seen.map(({ id }) => id) } };
  }

  /** A session whose first message is handled and, as more may follow, held. */
  async function begun({ ledger, react }: Pick<Awaited<ReturnType<typeof openProcess>>, "ledger" | "react">) {
    const session = newId("session");
    const [first] = await appendMany(ledger, session, 1);
    if (first === undefined) throw new Error("Nothing was appended");
    await react.handled(first);
    return { session, first };
  }

  async function ofBrain() {
    const { consumers } = await readLag(setup, 1);
    return lastOf(consumers.filter(({ service }) => service === "brain"));
  }
});
