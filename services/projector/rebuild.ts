// Drops the read models and makes them again from the mirror, to the same rows. One transaction: readers see the
// old rows until the new ones are all there, and a process that dies in here changes nothing.
import type { EntityManager } from "@mikro-orm/postgresql";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { mirrorScan } from "#shared/database/mirror.ts";
import { decodeMessage } from "#shared/ledger/codec.ts";
import { applyToReadModels, lockShards, SESSIONS_PROJECTION } from "./apply.ts";

const PAGE_MESSAGES = 500;

type Rebuild = Readonly<{ database: Database; blobs: Blobs; shards: number }>;

/**
 * Resolves with the number of messages that were replayed. Projectors wait meanwhile.
 * Throws what decodeMessage throws for a message that cannot be read; then nothing is changed.
 */
export function rebuildReadModels(rebuild: Rebuild): Promise<{ messages: number }> {
  return rebuild.database.orm.em.fork().transactional(async (em) => {
    await lockShards(
      em,
      Array.from({ length: rebuild.shards }, (_, shard) => shard),
    );
    await em.execute("delete from session_overview");
    await em.execute("delete from applied_sequence where projection = ?", [SESSIONS_PROJECTION]);
    return { messages: await replay(rebuild, em) };
  });
}

async function replay({ database, blobs, shards }: Rebuild, em: EntityManager): Promise<number> {
  let count = 0;
  for (let after = 0; ; ) {
    const page = await mirrorScan(database, after, PAGE_MESSAGES);
    const last = page.at(-1);
    if (last === undefined) return count;
    await applyToReadModels(em, shards, await Promise.all(page.map((stored) => decodeMessage(stored, blobs))));
    count += page.length;
    after = last.sequence;
  }
}
