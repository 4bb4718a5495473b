// Work queues over JetStream: one durable consumer per kind of worker, one item in hand at a time.
// The only place that decides between done, again and parked.
import { setTimeout as delay } from "node:timers/promises";
import { type Consumer, headers, type JetStreamClient, type JsMsg, millis, type NatsConnection } from "nats";
import type { z } from "zod";
import { PROBES_SUBJECT, parkedSubject, reportSubject, TIMERS_SUBJECT, taskSubject } from "#schemas/ledger/subjects.ts";
import { type ProviderTask, providerTask, type Report, report } from "#schemas/provider/task.ts";
import { type ProbeTask, probeTask } from "#schemas/scheduler/probe.ts";
import { type Timer, timer } from "#schemas/scheduler/timer.ts";
import { type Failure, Fatal, failureOf, Retryable } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import type { ReceivedReport, WorkQueueReceiver, WorkQueueSender } from "#shared/work-queue/work-queue.ts";
import { CONSUMER_NOT_FOUND, isAbsence } from "./absent.ts";
import {
  ACK_WAIT_MS,
  ATTEMPTS_MAX,
  PROBES_QUEUE,
  REPORTS_QUEUE,
  TIMERS_QUEUE,
  taskQueue,
  type WorkQueue,
} from "./work-queues.ts";

/** The scheduler's way to one kind of provider (`edge-scheduler`). */
export function openTaskSender(options: { nats: NatsConnection; provider: string }): WorkQueueSender<ProviderTask> {
  return sender(options.nats, taskSubject(options.provider), providerTask);
}

/** A provider's tasks (`provider-<kind>`). */
export function openTaskReceiver(options: {
  nats: NatsConnection;
  provider: string;
  log: Log;
}): WorkQueueReceiver<ProviderTask> {
  return receiver(options, taskQueue(options.provider), (message) => providerTask.parse(message.json()));
}

/** `reporter` is `provider-<kind>` or `relay`, and also the NATS user. */
export function openReportSender(options: { nats: NatsConnection; reporter: string }): WorkQueueSender<Report> {
  return sender(options.nats, reportSubject(options.reporter), report);
}

/** All reports, for the scheduler (`edge-scheduler`). Also logs what the queues of the account gave up unparked. */
export function openReportReceiver(options: { nats: NatsConnection; log: Log }): WorkQueueReceiver<ReceivedReport> {
  const reports = receiver(options, REPORTS_QUEUE, (message, wasHeld) => ({
    reporter: message.subject.slice(reportSubject("").length),
    redelivered: message.redelivered || wasHeld,
    place: { sequence: message.seq, storedAt: new Date(millis(message.info.timestampNanos)).toISOString() },
    report: report.parse(message.json()),
  }));
  return {
    async receive(handle) {
      const undeliverable = logUndeliverable(options);
      const receiving = await reports.receive(handle);
      return {
        close: () => {
          undeliverable.close();
          return receiving.close();
        },
      };
    },
  };
}

/** The scheduler's own deadlines (`scheduler`). */
export function openTimerSender(options: { nats: NatsConnection }): WorkQueueSender<Timer> {
  return sender(options.nats, TIMERS_SUBJECT, timer);
}

export function openTimerReceiver(options: { nats: NatsConnection; log: Log }): WorkQueueReceiver<Timer> {
  return receiver(options, TIMERS_QUEUE, (message) => timer.parse(message.json()));
}

/** Sandboxes that the scheduler has to probe (`scheduler`). */
export function openProbeSender(options: { nats: NatsConnection }): WorkQueueSender<ProbeTask> {
  return sender(options.nats, PROBES_SUBJECT, probeTask);
}

export function openProbeReceiver(options: { nats: NatsConnection; log: Log }): WorkQueueReceiver<ProbeTask> {
  return receiver(options, PROBES_QUEUE, (message) => probeTask.parse(message.json()));
}

/** What a queue gave up without anyone having parked it, as every attempt took its worker down. Only this tells of it. */
function logUndeliverable(options: { nats: NatsConnection; log: Log }): { close: () => void } {
  const subscription = options.nats.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.*.*", {
    callback: (error, message) => {
      if (error === null) options.log.error({ advisory: message.string() }, "A work item is no longer delivered");
    },
  });
  return { close: () => subscription.unsubscribe() };
}

function sender<Item>(nats: NatsConnection, subject: string, schema: z.ZodType<Item>): WorkQueueSender<Item> {
  const jetstream = nats.jetstream();
  return {
    async send(id, item) {
      await jetstream.publish(subject, JSON.stringify(schema.parse(item)), { msgID: id }).catch((cause: unknown) => {
        throw new Retryable(QUEUE_UNREACHABLE, `Nothing was stored on ${subject}`, { cause, retryAfterMs: 1_000 });
      });
    },
  };
}

/** `wasHeld`: it waited in this worker's hand, and another worker may have done newer ones meanwhile. */
type Read<Item> = (message: JsMsg, wasHeld: boolean) => Item;

type Work<Item> = Readonly<{
  nats: NatsConnection;
  jetstream: JetStreamClient;
  queue: WorkQueue;
  read: Read<Item>;
  handle: (item: Item, signal: AbortSignal) => Promise<void>;
  closing: AbortSignal;
  log: Log;
}>;

function receiver<Item>(
  { nats, log }: { nats: NatsConnection; log: Log },
  queue: WorkQueue,
  read: Read<Item>,
): WorkQueueReceiver<Item> {
  return {
    async receive(handle) {
      const jetstream = nats.jetstream();
      const consumer = await jetstream.consumers.get(queue.stream, queue.consumer).catch(missing(queue));
      const closing = new AbortController();
      const running = workOff(consumer, { nats, jetstream, queue, read, handle, closing: closing.signal, log });
      return {
        close: () => {
          closing.abort();
          return running;
        },
      };
    },
  };
}

/** A scheduler may have died with the consumer taken away and not made anew (queue-watch.ts); its next start makes it. */
function missing({ stream, consumer }: WorkQueue): (error: unknown) => never {
  return (cause) => {
    if (!isAbsence(CONSUMER_NOT_FOUND, cause)) throw cause;
    throw new Retryable("queue_missing", `The work queue ${stream} has no consumer ${consumer}`, {
      cause,
      retryAfterMs: 1_000,
      next: "Start the scheduler, which makes it anew; if that does not help, run `pistis setup`.",
    });
  };
}

/** One item is asked for when the one before is settled: nothing waits, out of time, behind a long one. */
async function workOff<Item>(consumer: Consumer, work: Work<Item>): Promise<void> {
  while (!work.closing.aborted) {
    try {
      const message = await next(consumer, work.closing);
      if (message !== undefined) await settle(message, work);
    } catch (error) {
      if (work.closing.aborted) return;
      const { stream, consumer: name } = work.queue;
      const fields = { stream, consumer: name, failure: failureOf(error) };
      if (work.nats.isClosed()) return work.log.error(fields, "The connection to NATS is closed: no more work");
      work.log.error(fields, "A work queue does not answer; asking again");
      await pause(PAUSE_MS, work.closing);
    }
  }
}

async function next(consumer: Consumer, closing: AbortSignal): Promise<JsMsg | undefined> {
  const messages = await consumer.fetch({ max_messages: 1, expires: ASK_MS });
  const stop = () => messages.stop();
  closing.addEventListener("abort", stop, { once: true });
  if (closing.aborted) stop();
  try {
    for await (const message of messages) return message;
    return undefined;
  } finally {
    closing.removeEventListener("abort", stop);
  }
}

/** An acknowledgement that does not get through throws: the item comes again, to a handler that expects that. */
async function settle<Item>(message: JsMsg, work: Work<Item>): Promise<void> {
  const { ackWaitMs = ACK_WAIT_MS } = work.queue;
  const alive = setInterval(() => message.working(), ackWaitMs / 3);
  try {
    const error = await failureOfHandling(message, work);
    if (error === undefined) await message.ackAck();
    else if (error instanceof Retryable) again(message, error, work);
    else await park(message, failureOf(error), work);
  } finally {
    clearInterval(alive);
  }
}

/** What waits for the ledger stays in hand and costs no delivery: the loss may last for hours, and every item waits for it. */
async function failureOfHandling<Item>(message: JsMsg, work: Work<Item>): Promise<unknown> {
  const { nats, queue, closing, log } = work;
  const { stream, consumer } = queue;
  for (let wasHeld = false; ; wasHeld = true) {
    const error = await failureOfTry(message, work, wasHeld);
    if (!(error instanceof Retryable) || !isOfAllItems(error)) return error;
    const fields = { stream, consumer, ...placeOf(message), failure: failureOf(error) };
    if (!wasHeld) log.warn(fields, "A work item waits in hand, and those behind it");
    await pause(error.retryAfterMs, closing);
    if (closing.aborted || nats.isClosed()) return error;
  }
}

async function failureOfTry<Item>(message: JsMsg, work: Work<Item>, wasHeld: boolean): Promise<unknown> {
  try {
    if (message.info.deliveryCount > ATTEMPTS_MAX) throw tooManyAttempts();
    await work.handle(readItem(message, work, wasHeld), work.closing);
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Any other item would fail as this one: the ledger takes nothing or does not answer, or no report can be stored. */
function isOfAllItems({ code }: Retryable): boolean {
  return code.startsWith("ledger_") || code === QUEUE_UNREACHABLE;
}

function readItem<Item>(message: JsMsg, work: Work<Item>, wasHeld: boolean): Item {
  try {
    return work.read(message, wasHeld);
  } catch (cause) {
    throw new Fatal("queue_item_invalid", `An item of ${work.queue.stream} does not fit its schema`, { cause });
  }
}

function again<Item>(message: JsMsg, error: Retryable, work: Work<Item>): void {
  const { stream, consumer } = work.queue;
  const { sequence, attempt } = placeOf(message);
  work.log.debug({ stream, consumer, sequence, attempt, failure: failureOf(error) }, "A work item will come again");
  message.nak(error.retryAfterMs);
}

/** Stored aside first, then taken off the queue: a crash between the two parks it once, by the message's id. */
async function park<Item>(message: JsMsg, failure: Failure, work: Work<Item>): Promise<void> {
  const { stream, consumer } = work.queue;
  const { sequence, attempt } = placeOf(message);
  const why = headers();
  why.set("Pistis-Code", failure.code);
  why.set("Pistis-Reason", failure.message.replace(/[\r\n]+/g, " ").slice(0, REASON_CHARACTERS_MAX));
  const msgID = `parked-${stream}-${sequence}`;
  await work.jetstream.publish(parkedSubject(stream, consumer), message.data, { msgID, headers: why });
  work.log.error({ stream, consumer, sequence, attempt, failure }, "A work item is parked");
  await message.ackAck();
}

function placeOf(message: JsMsg): { sequence: number; attempt: number } {
  return { sequence: message.seq, attempt: message.info.deliveryCount };
}

function tooManyAttempts(): Fatal {
  return new Fatal("queue_attempts", `Given up after ${ATTEMPTS_MAX} attempts`);
}

async function pause(timeMs: number, closing: AbortSignal): Promise<void> {
  await delay(timeMs, undefined, { signal: closing }).catch((error: unknown) => {
    if (!closing.aborted) throw error;
  });
}

const ASK_MS = 30_000;
const PAUSE_MS = 1_000;
const QUEUE_UNREACHABLE = "queue_unreachable";
const REASON_CHARACTERS_MAX = 1_000;
