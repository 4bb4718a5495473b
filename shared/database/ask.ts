// Questions to the database that somebody waits for. A server that is away, or that does not answer, becomes one typed
// error within a bound, so that whoever asks can do without it or say so.
import { z } from "zod";
import { Retryable } from "#shared/errors/errors.ts";

export const ASK_MS = 5_000;
const RETRY_AFTER_MS = 1_000;

/** Codes of the system, and classes of SQLSTATE: connection exceptions, no resources, an operator's intervention. */
const AWAY = /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN|08...|53...|57P..)$/;
/** What the driver says without a code. */
const AWAY_TEXT =
  /connection terminated|timeout exceeded when trying to connect|client has encountered a connection error/i;

const failure = z.object({ code: z.string().optional(), message: z.string(), cause: z.unknown().optional() });

/** Throws a Retryable `database_unavailable`, or what the question itself throws. */
export async function askDatabase<T>(question: () => Promise<T>, timeMs: number = ASK_MS): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(unavailable(`no answer within ${timeMs} ms`)), timeMs);
  try {
    return await Promise.race([question(), late.promise]);
  } catch (error) {
    throw isAway(error) ? unavailable("it cannot be reached", error) : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Like askDatabase, with undefined for a database that is away: for what the ledger can answer too. */
export async function askDatabaseIfThere<T>(
  question: () => Promise<T>,
  timeMs: number = ASK_MS,
): Promise<T | undefined> {
  try {
    return await askDatabase(question, timeMs);
  } catch (error) {
    if (error instanceof Retryable) return undefined;
    throw error;
  }
}

function isAway(error: unknown): boolean {
  const { data } = failure.safeParse(error);
  if (data === undefined) return false;
  return AWAY.test(data.code ?? "") || AWAY_TEXT.test(data.message) || isAway(data.cause);
}

function unavailable(why: string, cause?: unknown): Retryable {
  const next = "See that PostgreSQL runs and that DATABASE_URL names it; turns go on without it.";
  const options = { cause, next, retryAfterMs: RETRY_AFTER_MS };
  return new Retryable("database_unavailable", `The database does not answer: ${why}`, options);
}
