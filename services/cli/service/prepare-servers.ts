// What NATS and PostgreSQL need before any service starts.
import { migrate } from "#shared/database/migrate.ts";
import { openReachableDatabase } from "#shared/database/migrated.ts";
import { prepareStreams } from "../dev/connections.ts";
import type { Steps } from "../dev/steps.ts";

export type Servers = Readonly<{
  natsUrl: string;
  natsKeys: Parameters<typeof prepareStreams>[0]["keys"];
  databaseUrl: string;
  shards: number;
}>;

/** Makes streams, consumers and the bucket, and migrates the database. What is there already stays. */
export async function prepareServers(steps: Steps, { natsUrl, natsKeys, databaseUrl, shards }: Servers): Promise<void> {
  await steps.run("streams and consumers", () => prepareStreams({ url: natsUrl, keys: natsKeys }, shards));
  await steps.run("database", () => migrateAt(databaseUrl));
}

async function migrateAt(url: string): Promise<void> {
  const database = await openReachableDatabase(url);
  try {
    await migrate(database);
  } finally {
    await database.close();
  }
}
