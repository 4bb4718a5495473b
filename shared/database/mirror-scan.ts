// The mirror in the order of the stream, for what compares it with the ledger.
import { z } from "zod";
import type { MirroredMessage, MirrorScan } from "#shared/ledger/mirror.ts";
import { SESSIONS_PROJECTION } from "./applied.ts";
import type { DatabasePool } from "./pool.ts";

const rows = z.array(
  z.object({ session: z.string(), sequence: z.coerce.number().int(), message: z.instanceof(Uint8Array) }),
);
const counts = z.tuple([z.object({ count: z.coerce.number().int() })]);
const marks = z.array(z.object({ shard: z.number().int(), sequence: z.coerce.number().int() }));

const COLUMNS = "select session, sequence, message from ledger_message";

export function mirrorScan({ pool }: Pick<DatabasePool, "pool">): MirrorScan {
  const messages = async (text: string, values: unknown[]): Promise<MirroredMessage[]> => {
    const result = await pool.query({ text, values });
    return rows.parse(result.rows).map(({ session, sequence, message }) => ({ session, sequence, bytes: message }));
  };
  return {
    lastUpTo: async (sequence = Number.MAX_SAFE_INTEGER) => {
      const [last] = await messages(`${COLUMNS} where sequence <= $1 order by sequence desc limit 1`, [sequence]);
      return last;
    },
    page: (after, limit) => messages(`${COLUMNS} where sequence > $1 order by sequence limit $2`, [after, limit]),
    countAfter: async (sequence) => {
      const text = "select count(*) as count from ledger_message where sequence > $1";
      const [{ count }] = counts.parse((await pool.query({ text, values: [sequence] })).rows);
      return count;
    },
    marks: async () => {
      const text = "select shard, sequence from applied_sequence where projection = $1";
      const found = marks.parse((await pool.query({ text, values: [SESSIONS_PROJECTION] })).rows);
      return new Map(found.map(({ shard, sequence }) => [shard, sequence]));
    },
  };
}
