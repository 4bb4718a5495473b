// The warm pool's record, as the one entry of a KV bucket.
import { type NatsConnection, NatsError } from "nats";
import { POOL_BUCKET } from "#schemas/ledger/subjects.ts";
import { EMPTY_POOL, type PoolRecord, poolRecord } from "#schemas/scheduler/pool.ts";
import { Retryable } from "#shared/errors/errors.ts";

const KEY = "record";
const WRONG_LAST_SEQUENCE = new Set([10_071, 10_164]);

export type PoolRecordStore = Readonly<{
  read: () => Promise<Readonly<{ record: PoolRecord; revision: number }>>;
  /** False when another scheduler was first: `revision` is not the newest any more. */
  replace: (record: PoolRecord, revision: number) => Promise<boolean>;
}>;

/** For the scheduler (`scheduler`). */
export async function openPoolRecord({ nats }: { nats: NatsConnection }): Promise<PoolRecordStore> {
  const bucket = await nats.jetstream().views.kv(POOL_BUCKET, { bindOnly: true, allow_direct: true });
  return {
    async read() {
      const entry = await bucket.get(KEY).catch((cause: unknown) => {
        throw unreachable(cause);
      });
      if (entry === null) return { record: EMPTY_POOL, revision: 0 };
      return { record: poolRecord.parse(entry.json()), revision: entry.revision };
    },
    async replace(record, revision) {
      const text = JSON.stringify(poolRecord.parse(record));
      try {
        await bucket.put(KEY, text, { previousSeq: revision });
        return true;
      } catch (cause) {
        if (cause instanceof NatsError && WRONG_LAST_SEQUENCE.has(cause.api_error?.err_code ?? 0)) return false;
        throw unreachable(cause);
      }
    },
  };
}

function unreachable(cause: unknown): Retryable {
  return new Retryable("pool_unreachable", "The record of the warm pool could not be read or written", {
    cause,
    retryAfterMs: 1_000,
    next: "See that NATS runs and that `pistis setup` has prepared it since the last update.",
  });
}
