// Set-up of NATS: streams, consumers and the bucket, so that no service needs the right to make them.
import { openNats } from "#shared/nats/access.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { Resources } from "#shared/service/resources.ts";

/** With the two users that may, whose connections are then closed. Resolves with the server's version. */
export async function prepareStreams(
  { url, keys }: { url: string; keys: Readonly<Record<"setup" | "edge-setup", Readonly<{ seed: string }>>> },
  shards: number,
): Promise<string> {
  const resources = new Resources();
  try {
    const [core, edge] = await Promise.all([
      openNats({ url, seed: keys.setup.seed }, "setup", resources),
      openNats({ url, seed: keys["edge-setup"].seed }, "edge-setup", resources),
    ]);
    await prepareNats({ core, edge, shards });
    return core.info?.version ?? "";
  } finally {
    await resources.close();
  }
}
