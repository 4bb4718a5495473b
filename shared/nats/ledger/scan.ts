// Reading a long stretch of the ledger to its end through a consumer of its own. The server sends ahead, so it takes
// a fraction of what asking for one message after another does; what is on its way is bounded.
import { randomUUID } from "node:crypto";
import { AckPolicy, DeliverPolicy, type NatsConnection, NatsError, nanos } from "nats";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { Pull, type Pulled, remakeWaitMs } from "./pull.ts";
import { unavailable } from "./stream-reader.ts";

export type Scan = Readonly<{
  /** The stream's sequence after which it begins. */
  after: number;
  /** Messages of one subject, or of a pattern such as `ledger.*.*`. */
  subject: string;
}>;

/** Messages on their way to the reader, which with the size of a message bounds its memory. */
const WINDOW = 256;
const INACTIVE_MS = 30_000;
const MANAGE_MS = 2_000;
const FAILURES_MAX = 5;
const EXPIRED = new Set([404, 408]);
const NEVER = new AbortController().signal;

export const WHOLE_LEDGER = "ledger.*.*";

type Position = { after: number };

/**
 * The messages that are there, in order and without a gap; it ends with the last one. Throws a Retryable
 * `ledger_unavailable` when the server does not answer several times in a row, and its NatsError when it does not let
 * this user make a consumer.
 */
export async function* scanLedger(nats: NatsConnection, scan: Scan): AsyncGenerator<Pulled> {
  const position: Position = { after: scan.after };
  for (let failures = 0; ; ) {
    const before = position.after;
    try {
      if ((yield* withOneConsumer(nats, scan.subject, position)) === "complete") return;
    } catch (error) {
      if (!(error instanceof NatsError || error instanceof Retryable)) throw error;
      if (error instanceof NatsError && error.isPermissionError()) throw error;
      failures = position.after === before ? failures + 1 : 1;
      if (nats.isClosed() || failures === FAILURES_MAX) throw unavailable("Reading the ledger broke off", error);
    }
    await new Promise((resolve) => setTimeout(resolve, remakeWaitMs(failures)));
  }
}

async function* withOneConsumer(
  nats: NatsConnection,
  subject: string,
  position: Position,
): AsyncGenerator<Pulled, "complete" | "broken"> {
  const manager = await nats.jetstreamManager({ checkAPI: false, timeout: MANAGE_MS });
  const consumer = await manager.consumers.add(LEDGER_STREAM, {
    name: `follow_${randomUUID()}`,
    filter_subject: subject,
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: position.after + 1,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(INACTIVE_MS),
  });
  if (consumer.num_pending === 0) return "complete";
  const pull = new Pull(nats, consumer.name);
  try {
    for (let delivery = 1, pending = consumer.num_pending; ; ) {
      if (pull.due <= Math.min(WINDOW, pending) / 2) pull.ask(Math.min(WINDOW, pending) - pull.due);
      const arrival = await pull.take(NEVER);
      if (arrival === undefined || arrival.type === "silent") return "broken";
      if (arrival.type === "ended") {
        if (EXPIRED.has(arrival.code)) continue;
        return "broken";
      }
      if (arrival.message.delivery !== delivery++) return "broken";
      position.after = arrival.message.sequence;
      pending = arrival.message.pending;
      yield arrival.message;
      if (pending === 0) return "complete";
    }
  } finally {
    pull.close();
    if (!nats.isClosed()) await manager.consumers.delete(LEDGER_STREAM, consumer.name).catch(timesOutByItself);
  }
}

function timesOutByItself(): void {
  // The server drops a consumer that nobody pulls from.
}
