import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import type { NatsConnection } from "nats";
import type { Report } from "#schemas/provider/task.ts";
import { type NatsServer, startNatsServer } from "#shared/embedded/nats-server.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { connectNats } from "./connection.ts";
import { type NatsUser, newNatsKeys } from "./keys.ts";
import { watchQueues } from "./queue-watch.ts";
import { prepareNats } from "./setup.ts";
import { openReportReceiver, openReportSender } from "./work-queue.ts";
import { ATTEMPTS_MAX, EDGE_QUEUES } from "./work-queues.ts";

const report = (bootId: string): Report => ({ kind: "joined", sandboxId: "sbx_1", generation: 1, bootId });

describe("the watch over work queues", function () {
  this.timeout(30_000);
  const keys = newNatsKeys();
  let resources: Resources;
  let folder: string;
  let server: NatsServer;

  beforeEach(async () => {
    resources = new Resources();
    folder = await mkdtemp(join(tmpdir(), "pistis-queue-watch-"));
    resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
    server = await startNatsServer({ stateDir: folder, keys, shards: 1, log: silentLog });
    resources.add("nats-server", undefined, () => server.close());
    const [core, edge] = [await connect("setup"), await connect("edge-setup")];
    await prepareNats({ core, edge, shards: 1 });
  });
  afterEach(() => resources.close());

  it("C138: makes a consumer anew that knows of later sequences than its stream has, so that nothing waits for ever", async () => {
    const store = join(folder, "jetstream", "jetstream", "EDGE", "streams", "REPORTS", "msgs");
    await handedOut(3);
    await whileStopped(() => cp(store, join(folder, "kept"), { recursive: true }));
    await handedOut(20);
    // As a killed server may leave it: the stream is as it was, and the consumer as it became.
    await whileStopped(async () => {
      await rm(store, { recursive: true });
      await cp(join(folder, "kept"), store, { recursive: true });
    });
    await send("lost-to-all");
    const heard = await receiver();
    const manager = await (await connect("edge-setup")).jetstreamManager();
    const { delivered, num_pending } = await manager.consumers.info("REPORTS", "scheduler");
    const { state } = await manager.streams.info("REPORTS");
    expect(state).to.include({ messages: 1 });
    expect(delivered.stream_seq).to.be.above(state.last_seq);
    expect(num_pending).to.equal(0);
    await watch();
    expect(await heard.next()).to.equal("lost-to-all");
    await send("after");
    expect(await heard.next()).to.equal("after");
  });

  it("hands out again what came to its last delivery with a worker that died", async () => {
    await send("given-up");
    const consumer = await (await connect("edge-scheduler")).jetstream().consumers.get("REPORTS", "scheduler");
    for (let delivery = 0; delivery <= ATTEMPTS_MAX; delivery++) (await consumer.next({ expires: 5_000 }))?.nak();
    expect(await consumer.next({ expires: 1_000 })).to.equal(null);
    const heard = await receiver();
    await watch();
    expect(await heard.next()).to.equal("given-up");
  });

  it("makes a consumer that a scheduler took away and died anew before its worker starts", async () => {
    const manager = await (await connect("edge-setup")).jetstreamManager();
    await send("waiting");
    await manager.consumers.delete("REPORTS", "scheduler");
    const failure = await receiver().catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Retryable).with.property("code", "queue_missing");
    await watch();
    expect(await (await receiver()).next()).to.equal("waiting");
  });

  it("makes a consumer that is gone anew, and leaves alone one that hands out or has nothing to hand out", async () => {
    const manager = await (await connect("edge-setup")).jetstreamManager();
    const made = async () => (await manager.consumers.info("REPORTS", "scheduler")).created;
    const before = await made();
    const heard = await receiver();
    const looks = await watch();
    for (let each = 0; each < 20; each++) {
      await send(`report-${each}`);
      expect(await heard.next()).to.equal(`report-${each}`);
    }
    await looks(3);
    expect(await made()).to.equal(before);
    await manager.consumers.delete("REPORTS", "scheduler");
    await looks(3);
    expect(await made()).to.not.equal(before);
  });

  async function connect(user: NatsUser): Promise<NatsConnection> {
    const nats = await connectNats({ url: server.url, user, seed: keys[user].seed, name: `test ${user}` });
    return resources.add(`connection of ${user}`, nats, (it) => it.close());
  }

  async function send(bootId: string): Promise<void> {
    await openReportSender({ nats: await connect("relay"), reporter: "relay" }).send(bootId, report(bootId));
  }

  /** A worker, and what it was handed, one after another. */
  async function receiver() {
    const waiting: string[] = [];
    let wake: () => void = () => undefined;
    const nats = await connect("edge-scheduler");
    const receiving = await openReportReceiver({ nats, log: silentLog }).receive(async ({ report: heard }) => {
      if (heard.kind === "joined") waiting.push(heard.bootId);
      wake();
    });
    resources.add("receiver", receiving, (it) => it.close());
    const next = async (): Promise<string | undefined> => {
      while (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return waiting.shift();
    };
    return { next, close: () => receiving.close() };
  }

  async function handedOut(count: number): Promise<void> {
    const heard = await receiver();
    for (let each = 0; each < count; each++) {
      await send(`${count}-${each}`);
      expect(await heard.next()).to.equal(`${count}-${each}`);
    }
    await heard.close();
  }

  /** Answers how to wait until it has looked so many times more. */
  async function watch(): Promise<(times: number) => Promise<void>> {
    const nats = await connect("edge-scheduler");
    let looks = 0;
    const manager = nats.jetstreamManager.bind(nats);
    const counted = Object.assign(Object.create(nats) as NatsConnection, {
      jetstreamManager: (...args: Parameters<typeof manager>) => {
        looks += 1;
        return manager(...args);
      },
    });
    const watching = await watchQueues({
      nats: counted,
      queues: EDGE_QUEUES.slice(0, 1),
      log: silentLog,
      lookEveryMs: 100,
    });
    resources.add("watch", watching, (it) => it.close());
    return async (times) => {
      const until = looks + times + 1;
      while (looks < until) await new Promise(setImmediate);
    };
  }

  async function whileStopped(change: () => Promise<void>): Promise<void> {
    await server.close();
    await change();
    server = await startNatsServer({ stateDir: folder, keys, shards: 1, log: silentLog });
  }
});
