// Copies into the mirror what it lacks of the ledger below where the projector has come: what was parked, once it can be
// read, and rows that were lost. What is there stays as it is, also when it differs.
import { shardOf } from "#schemas/ledger/subjects.ts";
import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { mirroredAmong, mirrorReader } from "#shared/database/mirror.ts";
import { writeBatch } from "#shared/database/write-batch.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { decodeMessage } from "#shared/ledger/codec.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { isLost } from "#shared/ledger/lost.ts";
import type { StreamMessage } from "#shared/ledger/verification.ts";

const PAGE = 256;

export type Refill = Readonly<{
  /** The whole ledger, in order. */
  stream: AsyncIterable<StreamMessage>;
  database: Database;
  blobs: Blobs;
  shards: number;
  /** Sequences that stay out: read models cannot be made of these. */
  refused: ReadonlySet<number>;
  onProgress?: (sequence: number) => void;
}>;

type Marks = ReadonlyMap<number, number>;

/** Resolves with the number of rows that were added. What cannot be read yet stays out. */
export async function refillMirror(refill: Refill): Promise<number> {
  const marks = await mirrorReader(refill.database).marks();
  let added = 0;
  let page: StreamMessage[] = [];
  for await (const message of refill.stream) {
    if (isLost(message.subject) || refill.refused.has(message.sequence)) continue;
    if (page.push(message) < PAGE) continue;
    added += await addMissing(refill, marks, page);
    refill.onProgress?.(message.sequence);
    page = [];
  }
  return added + (await addMissing(refill, marks, page));
}

async function addMissing(refill: Refill, marks: Marks, page: readonly StreamMessage[]): Promise<number> {
  const { pool } = refill.database;
  const sequences = page.map(({ sequence }) => sequence);
  const there = await mirroredAmong(pool, sequences);
  const messages: LedgerMessage[] = [];
  for (const stored of page) {
    if (there.has(stored.sequence)) continue;
    const message = await readable(refill, stored);
    if (message !== undefined && isDue(refill, marks, message)) messages.push(message);
  }
  if (messages.length > 0) await writeBatch(pool, { messages, overviews: [], marks: [] });
  return messages.length;
}

/** What the projector has not come to yet, it will bring itself. */
function isDue({ shards }: Refill, marks: Marks, { session, sequence }: LedgerMessage): boolean {
  return sequence <= (marks.get(shardOf(session, shards)) ?? 0);
}

async function readable({ blobs }: Refill, stored: StreamMessage): Promise<LedgerMessage | undefined> {
  try {
    return await decodeMessage(stored, blobs);
  } catch (error) {
    if (error instanceof Fatal) return undefined;
    throw error;
  }
}
