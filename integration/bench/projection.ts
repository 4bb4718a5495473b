// The projector catching up with a whole ledger, beside inserts of the same mirror rows and nothing else: in batches
// as large as the projector's, and one by one.
import { startProjector } from "#services/projector/projector.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { windowOf } from "#shared/nats/ledger/consumer.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { silentLog } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { type LedgerPlace, perSecond } from "./ledger-throughput.ts";
import { type Row, row, timed } from "./row.ts";

const BATCH = windowOf("projector");
const SINGLES_MAX = 3_000;

export async function projectionRows(
  { server }: LedgerPlace,
  messages: readonly LedgerMessage[],
  resources: Resources,
): Promise<Row[]> {
  const postgres = resources.add("database", await testDatabase(), ({ close }) => close());
  const database = resources.add("pool", await openDatabase(postgres.url), ({ close }) => close());
  await migrate(database);
  await database.pool.query("create table bare_message (like ledger_message including all)");
  const inserted = await bareInsertsPerSecond(database, messages, { batch: BATCH, inFlight: server.shards });
  await database.pool.query("truncate bare_message");
  const few = messages.slice(0, SINGLES_MAX);
  const single = await bareInsertsPerSecond(database, few, { batch: 1, inFlight: server.shards });
  const value = await projectedPerSecond(server, database, messages.length);
  const singles = `beside inserts of one row, ${server.shards} in flight`;
  return [
    row("projection catching up", "1/s", { value, baseline: inserted }, { ratioAtLeast: 0.25 }),
    row(`  ${singles}`, "1/s", { value, baseline: single }, { ratioAtLeast: 1 }),
  ];
}

async function projectedPerSecond(server: LedgerPlace["server"], database: Database, count: number): Promise<number> {
  const nats = await server.connect("projector");
  const { shards } = server;
  const feed = openLedgerFeed({ nats, shards, blobs: memoryBlobs(), log: silentLog });
  const mirror = mirrorReader(database);
  const from = performance.now();
  const projector = await startProjector({ feed, database, shards, log: silentLog });
  while ((await mirror.countAfter(0)) < count) await new Promise((resolve) => setTimeout(resolve, 20));
  const ms = performance.now() - from;
  await projector.close();
  return perSecond(count, ms);
}

/** Each batch is a transaction of its own; so many connections take one after another. */
async function bareInsertsPerSecond(
  { pool }: Database,
  messages: readonly LedgerMessage[],
  { batch, inFlight }: { batch: number; inFlight: number },
): Promise<number> {
  let next = 0;
  const worker = async () => {
    while (next < messages.length) {
      const rows = messages.slice(next, next + batch);
      next += batch;
      await pool.query({
        name: "bare-insert",
        text: "insert into bare_message (session, sequence, message, at) select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::timestamptz[])",
        values: [
          rows.map(({ session }) => session),
          rows.map(({ sequence }) => sequence),
          rows.map(({ bytes }) => Buffer.from(bytes)),
          rows.map(({ at }) => at),
        ],
      });
    }
  };
  const ms = await timed(() => Promise.all(Array.from({ length: inFlight }, worker)));
  return perSecond(messages.length, ms);
}
