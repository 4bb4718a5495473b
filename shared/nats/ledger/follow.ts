// Following the ledger through a consumer that lives as long as it is read. Whatever goes wrong with it (a lost
// message shows in the consumer's own count, a lost connection, a consumer that the server dropped because
// the reader was slow), a new one goes on after the last message that was handed out.
import { randomUUID } from "node:crypto";
import { AckPolicy, DeliverPolicy, NatsError, nanos } from "nats";
import { LEDGER_STREAM, ledgerSubject } from "#schemas/ledger/subjects.ts";
import { Fatal, failureOf, Retryable } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { ChainWatch } from "#shared/ledger/chain-watch.ts";
import type { StoredMessage } from "#shared/ledger/codec.ts";
import { waited } from "#shared/ledger/delivery.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { isLost } from "#shared/ledger/lost.ts";
import { rereadGap } from "./gap-alarm.ts";
import type { FeedContext } from "./jetstream-feed.ts";
import { Pull, type Pulled, remakeWaitMs } from "./pull.ts";
import { unavailable } from "./stream-reader.ts";

type Follow = Readonly<{ after: number | "now"; session?: string; signal: AbortSignal }>;
type Position = { after: number | "now" };

/** Messages on their way to one reader: what bounds its memory, with the size of a message. */
const WINDOW = 128;
const INACTIVE_MS = 60_000;
const MANAGE_MS = 2_000;
const EXPIRED = new Set([404, 408]);

/**
 * Messages that cannot be read (written by a newer version) end the stream of a single session with their Fatal; a
 * stream of all sessions logs them and goes on, for one bad message must not hide every other session.
 */
export async function* follow(context: FeedContext, options: Follow): AsyncGenerator<LedgerMessage> {
  const watch = new ChainWatch();
  for await (const stored of storedMessages(context, options)) {
    const message = await readable(context, stored, { session: options.session, watch });
    if (message === undefined) continue;
    const gap = watch.gapBefore(message);
    const consumer = { consumer: "follow", subject: stored.subject, watch };
    for (const left of gap === undefined ? [] : await rereadGap(context, consumer, gap, message)) {
      const mended = await readable(context, left, { session: options.session, watch });
      if (mended !== undefined) yield mended;
    }
    watch.saw(message);
    yield message;
  }
}

async function readable(
  { blobs, recent, log }: FeedContext,
  stored: StoredMessage & { subject: string },
  { session, watch }: { session: string | undefined; watch: ChainWatch },
): Promise<LedgerMessage | undefined> {
  if (isLost(stored.subject)) return undefined;
  try {
    return await recent.decode(stored, blobs);
  } catch (error) {
    const { sequence, bytes } = stored;
    watch.saw({ session: stored.subject.split(".")[2] ?? "", sequence, hash: sha256(bytes) });
    if (session !== undefined || !(error instanceof Fatal)) throw error;
    const fields = { sequence: stored.sequence, subject: stored.subject, failure: failureOf(error) };
    log.error(fields, "A ledger message that cannot be read is left out of a stream of all sessions");
    return undefined;
  }
}

async function* storedMessages(context: FeedContext, options: Follow): AsyncGenerator<Pulled> {
  const position: Position = { after: options.after };
  for (let failures = 0; !options.signal.aborted; ) {
    try {
      yield* withOneConsumer(context, options, position);
      failures = 0;
    } catch (error) {
      if (context.nats.isClosed()) throw unavailable("The connection to NATS is closed", error);
      if (!(error instanceof NatsError || error instanceof Retryable)) throw error;
      context.log.warn({ after: position.after, failure: failureOf(error) }, "Following the ledger is interrupted");
      failures++;
    }
    await waited(remakeWaitMs(failures), options.signal);
  }
}

async function* withOneConsumer(context: FeedContext, options: Follow, position: Position): AsyncGenerator<Pulled> {
  const consumer = await makeConsumer(context, options.session, position);
  const pull = context.track(new Pull(context.nats, consumer));
  // A reader that aborts without asking for another message never gets to `finally`.
  const release = () => {
    if (!context.untrack(pull)) return;
    pull.close();
    dropConsumer(context, consumer);
  };
  options.signal.addEventListener("abort", release, { once: true });
  try {
    for (let delivery = 1; ; ) {
      if (pull.due <= WINDOW / 2) pull.ask(WINDOW - pull.due);
      const arrival = await pull.take(options.signal);
      if (arrival === undefined || arrival.type === "silent") return;
      if (arrival.type === "ended") {
        if (EXPIRED.has(arrival.code)) continue;
        context.log.debug({ ...arrival, consumer }, "The consumer that follows the ledger is made anew");
        return;
      }
      if (arrival.message.delivery !== delivery++) return;
      position.after = arrival.message.sequence;
      yield arrival.message;
    }
  } finally {
    options.signal.removeEventListener("abort", release);
    release();
  }
}

async function makeConsumer({ nats, shards }: FeedContext, session: string | undefined, position: Position) {
  const manager = await nats.jetstreamManager({ checkAPI: false, timeout: MANAGE_MS });
  const made = await manager.consumers.add(LEDGER_STREAM, {
    name: `follow_${randomUUID()}`,
    filter_subject: session === undefined ? "ledger.*.*" : ledgerSubject(session, shards),
    ack_policy: AckPolicy.None,
    ...(position.after === "now"
      ? { deliver_policy: DeliverPolicy.New }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: position.after + 1 }),
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(INACTIVE_MS),
  });
  // From here on "now" is a place, so that a consumer made anew leaves nothing out.
  if (position.after === "now") position.after = made.delivered.stream_seq;
  return made.name;
}

/** Not waited for: the server drops it by itself when nobody has pulled for a while. */
function dropConsumer({ nats, log }: FeedContext, consumer: string): void {
  if (nats.isClosed()) return;
  nats
    .jetstreamManager({ checkAPI: false })
    .then((manager) => manager.consumers.delete(LEDGER_STREAM, consumer))
    .catch((error: unknown) =>
      log.debug({ consumer, failure: failureOf(error) }, "A consumer stays until it times out"),
    );
}
