// Snapshots of folds, compressed. A snapshot is found only beside the very message that it is as of.
import { promisify } from "node:util";
import { zstdCompress, zstdDecompress } from "node:zlib";
import { z } from "zod";
import type { Snapshot, SnapshotKey, Snapshots } from "#shared/ledger/snapshots.ts";
import { askDatabase } from "./ask.ts";
import type { DatabasePool } from "./pool.ts";

/** Uncompressed. A larger one is not kept: reading it would take longer than folding. */
export const SNAPSHOT_BYTES_MAX = 64 * 1024 * 1024;

/** Longer than that is not waited for: the ledger says the same. */
const LOAD_MS = 1_000;

const rows = z.array(z.object({ sequence: z.coerce.number().int(), hash: z.string(), state: z.instanceof(Buffer) }));

const LOAD = `
  select snapshot.sequence, snapshot.hash, snapshot.state
  from session_snapshot snapshot
  join ledger_message message on message.session = snapshot.session and message.sequence = snapshot.sequence
  where snapshot.session = $1 and snapshot.fold = $2 and snapshot.fold_version = $3
    and snapshot.hash = encode(sha256(message.message), 'hex')`;

/** An older code version never takes the place of a newer one's. */
const SAVE = `
  insert into session_snapshot (session, fold, fold_version, sequence, hash, state) values ($1, $2, $3, $4, $5, $6)
  on conflict (session, fold) do update
  set fold_version = excluded.fold_version, sequence = excluded.sequence, hash = excluded.hash, state = excluded.state
  where (session_snapshot.fold_version, session_snapshot.sequence) < (excluded.fold_version, excluded.sequence)`;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Both throw what askDatabase throws; `load` also throws for bytes that are no snapshot. */
export function openSnapshots({ pool }: Pick<DatabasePool, "pool">): Snapshots {
  return {
    load: async ({ session, fold, foldVersion }) => {
      const values = [session, fold, foldVersion];
      const found = await askDatabase(() => pool.query({ name: "snapshot-load", text: LOAD, values }), LOAD_MS);
      const [row] = rows.parse(found.rows);
      return row === undefined ? undefined : snapshotOf(row);
    },
    save: async (key, snapshot) => {
      const text = JSON.stringify(snapshot.state);
      if (Buffer.byteLength(text) > SNAPSHOT_BYTES_MAX) return;
      const values = valuesOf(key, snapshot, await compress(text));
      await askDatabase(() => pool.query({ name: "snapshot-save", text: SAVE, values }));
    },
  };
}

async function snapshotOf(row: z.output<typeof rows>[number]): Promise<Snapshot> {
  const text = await decompress(row.state, { maxOutputLength: SNAPSHOT_BYTES_MAX });
  return { version: { sequence: row.sequence, hash: row.hash }, state: JSON.parse(text.toString()) };
}

function valuesOf({ session, fold, foldVersion }: SnapshotKey, { version }: Snapshot, state: Buffer): unknown[] {
  return [session, fold, foldVersion, version.sequence, version.hash, state];
}
