// One message at a time straight out of the LEDGER stream, without a consumer.
import { ErrorCode, type NatsConnection, NatsError } from "nats";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { Retryable } from "#shared/errors/errors.ts";
import type { StoredMessage } from "#shared/ledger/codec.ts";

export type Found = StoredMessage & Readonly<{ subject: string; messageId: string }>;

const REQUEST_MS = 2_000;
const TRIES_MAX = 3;
const NOT_FOUND = 404;
const GET_SUBJECT = `$JS.API.DIRECT.GET.${LEDGER_STREAM}`;

/** The first message at or after `sequence` whose subject matches. Throws a Retryable `ledger_unavailable`. */
export async function nextMessage(nats: NatsConnection, sequence: number, subject: string): Promise<Found | undefined> {
  const reply = await ask(nats, JSON.stringify({ seq: sequence, next_by_subj: subject }));
  const status = reply.headers?.code ?? 0;
  if (status === NOT_FOUND) return undefined;
  if (status !== 0 || reply.headers === undefined) {
    throw unavailable(`The server answered ${status} ${reply.headers?.description ?? ""}`);
  }
  return {
    sequence: Number(reply.headers.get("Nats-Sequence")),
    subject: reply.headers.get("Nats-Subject"),
    messageId: reply.headers.get("Nats-Msg-Id"),
    bytes: reply.data,
  };
}

/** Asks again when no answer comes: a connection that is made anew loses what was on its way. */
async function ask(nats: NatsConnection, request: string) {
  for (let tries = 1; ; tries++) {
    try {
      return await nats.request(GET_SUBJECT, request, { timeout: REQUEST_MS });
    } catch (cause) {
      if (!(cause instanceof NatsError)) throw cause;
      if (cause.code === ErrorCode.Timeout && tries < TRIES_MAX) continue;
      throw unavailable(`Reading the ledger failed: ${cause.message}`, cause);
    }
  }
}

export function unavailable(message: string, cause?: unknown): Retryable {
  const next = "See that nats-server runs, has room on its disk and that set-up has made the stream LEDGER.";
  return new Retryable("ledger_unavailable", message, { cause, next, retryAfterMs: 500 });
}
