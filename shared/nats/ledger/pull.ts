// Pulling from one JetStream consumer, by hand: the client's own ordered consumer loses messages (fetch) or takes
// without limit (consume). Messages and what else the server has to say arrive in one queue, in order.
import { setTimeout as delay } from "node:timers/promises";
import { createInbox, type Msg, type NatsConnection, nanos, type Subscription } from "nats";
import { z } from "zod";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import type { StoredMessage } from "#shared/ledger/codec.ts";

export type Pulled = StoredMessage &
  Readonly<{
    /** Counts what the consumer has delivered: 1, 2, 3, ... A gap means that something was lost on the way. */
    delivery: number;
    /** Delivered before, and not acknowledged. */
    again: boolean;
    /** Messages that wait behind this one. */
    pending: number;
    subject: string;
    messageId: string;
    ackSubject: string;
  }>;

export type Arrival =
  | { type: "message"; message: Pulled }
  /** A request is over, `missing` messages short: it expired, or the server refuses it. */
  | { type: "ended"; code: number; description: string; missing: number }
  /** Not even a heartbeat came in time, or the connection was made anew: what was asked for may be lost. */
  | { type: "silent" };

/** Of one request. It ends with the last message that fits; whoever hangs takes messages no longer than it lasts. */
export type PullLimits = Readonly<{ bytesMax?: number; expiresMs?: number }>;

const EXPIRES_MS = 30_000;
const HEARTBEAT_MS = 5_000;
const SILENCE_MS = 2 * HEARTBEAT_MS + 1_000;
const HEARTBEAT = 100;
const ACK_SUBJECTS = "$JS.ACK.";
/** A server that is away does not say that it has heard of the end. */
const DRAIN_MS = 2_000;
const REMAKE_MS = 100;
const REMAKE_MS_MAX = 5_000;

const connectionOptions = z.object({ options: z.object({ inboxPrefix: z.string().optional() }) });

/** Body of a pull request, also of one that goes with an acknowledgement (`+NXT`). */
export function pullRequest(batch: number, limits: PullLimits = {}): string {
  const { bytesMax, expiresMs = EXPIRES_MS } = limits;
  const bytes = bytesMax === undefined ? {} : { max_bytes: bytesMax };
  return JSON.stringify({ batch, ...bytes, expires: nanos(expiresMs), idle_heartbeat: nanos(HEARTBEAT_MS) });
}

/** How long to wait before a feed that broke off is made anew; longer with each failure in a row. */
export function remakeWaitMs(failures: number): number {
  return Math.min(REMAKE_MS * 2 ** Math.min(failures, 10), REMAKE_MS_MAX);
}

export class Pull {
  readonly inbox: string;
  readonly #nats: NatsConnection;
  readonly #consumer: string;
  readonly #subscription: Subscription;
  readonly #arrivals: Arrival[] = [];
  readonly #silence: NodeJS.Timeout;
  #wake: (() => void) | undefined;
  #giveBack: ((message: Pulled) => void) | undefined;
  #asked = 0;

  constructor(nats: NatsConnection, consumer: string) {
    this.#nats = nats;
    this.#consumer = consumer;
    this.inbox = createInbox(connectionOptions.parse(nats).options.inboxPrefix);
    this.#silence = setInterval(() => this.#asked > 0 && this.#put({ type: "silent" }), SILENCE_MS);
    this.#subscription = nats.subscribe(this.inbox, {
      callback: (error, message) =>
        error === null
          ? this.#receive(message)
          : this.#put({ type: "ended", code: 0, description: error.message, missing: this.#asked }),
    });
  }

  /** Messages that came and were not taken. */
  get arrived(): Pulled[] {
    return this.#arrivals.flatMap((arrival) => (arrival.type === "message" ? [arrival.message] : []));
  }

  /** How many times `take` need not wait. */
  get ready(): number {
    return this.#arrivals.length;
  }

  /** Messages that were asked for and not yet taken, wherever they are on their way. */
  get due(): number {
    return this.#asked + this.#arrivals.length;
  }

  ask(batch: number, limits: PullLimits = {}): void {
    this.expect(batch);
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${LEDGER_STREAM}.${this.#consumer}`;
    this.#nats.publish(subject, pullRequest(batch, limits), { reply: this.inbox });
  }

  /** Counts messages that were asked for in another way than by `ask`. */
  expect(batch: number): void {
    this.#asked += batch;
    this.#silence.refresh();
  }

  /** Resolves with undefined when `signal` aborts. */
  async take(signal: AbortSignal): Promise<Arrival | undefined> {
    while (this.#arrivals.length === 0 && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      signal.addEventListener("abort", this.#wake);
      await promise;
      signal.removeEventListener("abort", this.#wake);
    }
    return signal.aborted ? undefined : this.#arrivals.shift();
  }

  reconnected(): void {
    this.#put({ type: "silent" });
  }

  /** For a consumer of one's own, to which nothing has to be given back. */
  close(): void {
    clearInterval(this.#silence);
    this.#subscription.unsubscribe();
  }

  /**
   * Gives back what came and was not taken, and what still comes until the server knows that nobody listens here: it
   * would wait for an acknowledgement as long as for one of a replica that died.
   */
  async drain(giveBack: (message: Pulled) => void): Promise<void> {
    clearInterval(this.#silence);
    this.#giveBack = giveBack;
    for (const arrival of this.#arrivals.splice(0)) if (arrival.type === "message") giveBack(arrival.message);
    if (this.#nats.isClosed()) return;
    await Promise.race([this.#subscription.drain(), delay(DRAIN_MS, undefined, { ref: false })]);
  }

  #receive(message: Msg): void {
    this.#silence.refresh();
    // Only what is no message of the ledger has to say more in its headers, and reading them takes time.
    const isDelivery = message.reply?.startsWith(ACK_SUBJECTS) ?? false;
    const code = isDelivery ? 0 : (message.headers?.code ?? 0);
    if (code === HEARTBEAT) return;
    this.#put(code === 0 ? messageOf(message) : endOf(code, message));
  }

  #put(arrival: Arrival): void {
    if (this.#giveBack !== undefined) {
      if (arrival.type === "message") this.#giveBack(arrival.message);
      return;
    }
    if (arrival.type === "message") this.#asked = Math.max(0, this.#asked - 1);
    if (arrival.type === "ended") this.#asked = Math.max(0, this.#asked - arrival.missing);
    if (arrival.type === "silent") this.#asked = 0;
    this.#arrivals.push(arrival);
    this.#wake?.();
  }
}

function endOf(code: number, { headers }: Msg): Arrival {
  const missing = Number(headers?.get("Nats-Pending-Messages") || 1);
  return { type: "ended", code, description: headers?.description ?? "", missing };
}

/**
 * From the subject for acknowledgements: `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer
 * sequence>.<time>.<pending>`; a newer server puts a domain and an account before the stream and a token at the end.
 */
function messageOf(message: Msg): Arrival {
  const ackSubject = message.reply ?? "";
  const tokens = ackSubject.split(".");
  const first = tokens.length > 9 ? 7 : 5;
  const [deliveries, sequence, delivery, , pending] = tokens.slice(first - 1, first + 4).map(Number);
  if (sequence === undefined || delivery === undefined || pending === undefined) {
    return { type: "ended", code: 0, description: `No JetStream delivery: ${ackSubject}`, missing: 1 };
  }
  const { data: bytes, subject } = message;
  const pulled = {
    ...{ sequence, delivery, again: deliveries !== 1, pending, bytes, subject, ackSubject },
    get messageId() {
      return message.headers?.get("Nats-Msg-Id") ?? "";
    },
  };
  return { type: "message", message: pulled };
}
