import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Events } from "nats";
import { z } from "zod";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { connectNats, type NatsConnection } from "./connection.ts";
import { type NatsKeys, newNatsKeys } from "./keys.ts";

const inside = z.object({ protocol: z.object({ transport: z.object({ socket: z.instanceof(Socket) }) }) });

/** Resolves when this has happened to it so many times; rejects when it is given up before. */
async function happens(connection: NatsConnection, event: Events, count = 1): Promise<void> {
  const seen = async () => {
    let left = count;
    for await (const { type } of connection.status()) if (type === event && --left === 0) return true;
    return false;
  };
  if ((await Promise.race([seen(), connection.closed()])) !== true) throw new Error("The connection was given up");
}

describe("a connection to NATS", () => {
  let nats: TestNats;

  before(async () => {
    nats = await startTestNats();
  });
  after(() => nats.close());

  it("C140: closes also in the moment in which the server is lost, and throws nothing at the process", async () => {
    const thrown: unknown[] = [];
    const connection = await nats.connect("gateway");
    const { socket } = inside.parse(connection).protocol.transport;
    const listeners = process.rawListeners("uncaughtException");
    process.removeAllListeners("uncaughtException").on("uncaughtException", (error) => thrown.push(error));
    try {
      socket.end();
      connection.flush().catch(() => undefined);
      await connection.close();
      while (!socket.closed) await new Promise(setImmediate);
    } finally {
      process.removeAllListeners("uncaughtException");
      for (const listener of listeners) process.on("uncaughtException", (error) => listener(error));
    }
    expect(thrown).to.deep.equal([]);
  });

  it("C140: outlives a server that knows other keys for a while and refuses it again and again", async () => {
    const resources = new Resources();
    try {
      const stateDir = await mkdtemp(join(tmpdir(), "pistis-keys-"));
      resources.add("folder", stateDir, (folder) => rm(folder, { recursive: true, force: true }));
      const [keys, others] = [newNatsKeys(), newNatsKeys()];
      const start = (known: NatsKeys, port?: number) =>
        startNatsServer({ stateDir, keys: known, shards: 1, log: silentLog, ...(port === undefined ? {} : { port }) });
      let server = await start(keys);
      resources.add("server", undefined, () => server.close());
      const { url } = server;
      const port = Number(new URL(url).port);
      const connection = await connectNats({ url, user: "brain", seed: keys.brain.seed, name: "test brain" });
      resources.add("connection", connection, (opened) => opened.close());
      const refused = happens(connection, Events.Error, 4);
      await server.close();
      server = await start(others, port);
      await refused;
      const mended = happens(connection, Events.Reconnect);
      await server.close();
      server = await start(keys, port);
      await mended;
      await connection.flush();
    } finally {
      await resources.close();
    }
  });
});
