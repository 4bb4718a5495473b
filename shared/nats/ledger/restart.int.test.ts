// The server is killed while one service writes, one follows and one reacts.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { type NatsServer, startNatsServer } from "#shared/embedded/nats-server.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { verifyChain } from "#shared/ledger/verify.ts";
import { connectNats } from "#shared/nats/connection.ts";
import { type NatsUser, newNatsKeys } from "#shared/nats/keys.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { appendMany, lastOf, take, versionOf } from "#shared/testing/messages.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";

const SHARDS = 2;
const ROUNDS = 3;
const PER_ROUND = 50;
const TOTAL = ROUNDS * PER_ROUND;

describe("a killed nats-server", () => {
  const blobs = memoryBlobs();
  const keys = newNatsKeys();
  const resources = new Resources();
  let stateDir: string;
  let server: NatsServer;

  before(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "pistis-restart-"));
    resources.add("state directory", stateDir, (directory) => rm(directory, { recursive: true, force: true }));
    server = await start();
    resources.add("server", undefined, () => server.close());
    await prepareNats({ core: await connect("setup"), edge: await connect("edge-setup"), shards: SHARDS });
  });
  after(() => resources.close());

  it("C140: loses no acknowledged message and none is written, followed or left out twice", async () => {
    const session = newId("session");
    const gateway = openLedger({ nats: await connect("gateway"), writer: "gateway", shards: SHARDS, blobs });
    const feed = openLedgerFeed({ nats: await connect("brain"), shards: SHARDS, blobs, log: silentLog });
    const stop = new AbortController();
    const followed = take(TOTAL, feed.follow({ after: 0, session, signal: stop.signal }));
    const reacted = new Map<string, LedgerMessage>();
    const all = Promise.withResolvers<void>();
    const running = await feed.react({
      consumer: "brain",
      handle: async (messages) => {
        for (const message of messages) reacted.set(message.id, message);
        if (reacted.size === TOTAL) all.resolve();
      },
    });
    const appended: LedgerMessage[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const writing = appendMany(
        gateway,
        session,
        PER_ROUND,
        appended.length === 0 ? undefined : versionOf(lastOf(appended)),
      );
      await killAndStart();
      appended.push(...(await writing));
    }
    const { messages } = await gateway.read(session);
    expect(messages.map(({ id }) => id)).to.deep.equal(appended.map(({ id }) => id));
    expect(await verifyChain(messages)).to.equal(undefined);
    expect((await followed).map(({ id }) => id)).to.deep.equal(appended.map(({ id }) => id));
    await all.promise;
    expect([...reacted.keys()]).to.deep.equal(appended.map(({ id }) => id));
    await running.close();
  });

  async function killAndStart(): Promise<void> {
    const { port } = new URL(server.url);
    const died = new Promise<void>((resolve) => {
      server.died.addEventListener("abort", () => resolve(), { once: true });
    });
    process.kill(server.pid, "SIGKILL");
    await died;
    server = await start(Number(port));
  }

  function start(port?: number): Promise<NatsServer> {
    const chosen = port === undefined ? {} : { port };
    return startNatsServer({ stateDir, keys, shards: SHARDS, log: silentLog, ...chosen });
  }

  async function connect(user: NatsUser) {
    const connection = await connectNats({ url: server.url, user, seed: keys[user].seed, name: `test ${user}` });
    return resources.add(`connection of ${user}`, connection, () => connection.close());
  }
});
