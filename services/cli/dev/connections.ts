// One NATS connection per user, and per purpose where live traffic must not hold up the ledger's.
import { connectNats, type NatsConnection } from "#shared/nats/connection.ts";
import type { NatsKeys, NatsUser } from "#shared/nats/keys.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { Resources } from "#shared/service/resources.ts";

type Nats = Readonly<{ url: string; keys: NatsKeys }>;

/** Each is closed with `resources`. */
export async function connectAs(
  nats: Nats,
  user: NatsUser,
  resources: Resources,
  name: string = user,
): Promise<NatsConnection> {
  const connection = await connectNats({ url: nats.url, user, seed: nats.keys[user].seed, name: `pistis ${name}` });
  return resources.add(`NATS connection of ${name}`, connection, (opened) => opened.close());
}

/** Makes streams and consumers, with the two users that may, whose connections are then closed. */
export async function prepareStreams(nats: Nats, shards: number): Promise<void> {
  const resources = new Resources();
  try {
    const [core, edge] = await Promise.all([
      connectAs(nats, "setup", resources),
      connectAs(nats, "edge-setup", resources),
    ]);
    await prepareNats({ core, edge, shards });
  } finally {
    await resources.close();
  }
}
