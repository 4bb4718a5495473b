// The mirror makes opening a session fast; the ledger itself has everything. So turns go on while the database is away:
// a mirror that fails or does not answer is left alone for a while, and sessions are read from JetStream alone.
import { failureOf } from "#shared/errors/errors.ts";
import type { MirrorReader } from "#shared/ledger/mirror.ts";
import type { Log } from "#shared/service/log.ts";

/** Longer than any session takes that the mirror does answer about. */
export const MIRROR_READ_MS_MAX = 5_000;
export const MIRROR_REST_MS = 10_000;

/** Never throws: without an answer it reads as empty. Says so once, and once when the mirror is back. */
export function dispensableMirror(
  mirror: MirrorReader | undefined,
  log: Log,
  now: () => number = () => performance.now(),
): MirrorReader {
  if (mirror === undefined) return { read: async () => [] };
  let away: { until: number } | undefined;
  return {
    read: async (session, after) => {
      if (away !== undefined && now() < away.until) return [];
      try {
        const rows = await within(MIRROR_READ_MS_MAX, mirror.read(session, after));
        if (away !== undefined) log.info({}, "The mirror answers again");
        away = undefined;
        return rows;
      } catch (error) {
        const fields = { code: "mirror_away", failure: failureOf(error) };
        if (away === undefined) log.warn(fields, "The mirror does not answer: sessions are read from JetStream alone");
        away = { until: now() + MIRROR_REST_MS };
        return [];
      }
    },
  };
}

async function within<T>(timeMs: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`No answer within ${timeMs} ms`)), timeMs);
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
}
