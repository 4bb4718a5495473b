// A nats-server of its own for a test file: fresh keys and store, an ephemeral port, streams and consumers in place.
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { connectNats, type NatsConnection } from "#shared/nats/connection.ts";
import { type NatsKeys, type NatsUser, newNatsKeys } from "#shared/nats/keys.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";

export type TestNats = Readonly<{
  url: string;
  keys: NatsKeys;
  shards: number;
  /** Kills the server (SIGKILL) and starts it again on the same port and store. */
  killAndStart: () => Promise<void>;
  /** A new connection as this user; closed with the server at the latest. */
  connect: (user: NatsUser) => Promise<NatsConnection>;
  close: () => Promise<void>;
}>;

export async function startTestNats(options: { shards?: number; leaseTtlMs?: number } = {}): Promise<TestNats> {
  const resources = new Resources();
  const shards = options.shards ?? 2;
  try {
    const stateDir = await mkdtemp(join(tmpdir(), "pistis-nats-"));
    resources.add("state directory", stateDir, (directory) => rm(directory, { recursive: true, force: true }));
    const keys = newNatsKeys();
    const startServer = (port?: number) =>
      startNatsServer({ stateDir, keys, shards, log: silentLog, ...(port === undefined ? {} : { port }) });
    let server = await startServer();
    resources.add("nats-server", server, () => server.close());
    const { url } = server;
    const killAndStart = async () => {
      const died = once(server.died, "abort");
      process.kill(server.pid, "SIGKILL");
      await died;
      server = await startServer(Number(new URL(url).port));
    };
    const connect = async (user: NatsUser) => {
      const connection = await connectNats({ url, user, seed: keys[user].seed, name: `test ${user}` });
      return resources.add(`connection of ${user}`, connection, () => connection.close());
    };
    const [core, edge] = await Promise.all([connect("setup"), connect("edge-setup")]);
    await prepareNats({
      core,
      edge,
      shards,
      ...(options.leaseTtlMs === undefined ? {} : { leaseTtlMs: options.leaseTtlMs }),
    });
    return { url, keys, shards, killAndStart, connect, close: () => resources.close() };
  } catch (error) {
    await resources.close();
    throw error;
  }
}
