// What becomes of a batch that a durable consumer hands to its service. The one place that decides between done,
// again and parked; the ledgers only keep the order and remember how far a consumer has come.
import { setTimeout as delay } from "node:timers/promises";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { type LedgerMessage, VersionConflict } from "./ledger.ts";

/**
 * The longest wait between two tries, and so how long people wait after what was away has come back. Tries themselves
 * have no limit: order waits for what may work later.
 */
export const RETRY_WAIT_MS_MAX = 5_000;
const CONFLICT_RETRY_MS = 50;

/** A message that its consumer gave up. */
export type Parked = Readonly<{
  consumer: string;
  sequence: number;
  session: string;
  code: string;
  reason: string;
  next?: string;
}>;

export type Delivery = Readonly<{
  consumer: string;
  handle: (messages: readonly LedgerMessage[]) => Promise<void>;
  park: (parked: Parked) => Promise<void>;
  log: Log;
  /** Aborts when the service stops: a wait before a retry ends and the batch stays undone. */
  stopping: AbortSignal;
}>;

/** Resolves with true when every message of the batch was handled or parked, with false when the service stops first. */
export async function deliver(messages: readonly LedgerMessage[], delivery: Delivery): Promise<boolean> {
  const [first, ...rest] = messages;
  if (first === undefined) return true;
  const end = await tryUntilSettled(messages, delivery);
  if (end.status !== "failed") return end.status === "handled";
  if (rest.length === 0)
    return parkUntilRecorded(parkedOf(first.sequence, first.session, end.error, delivery), delivery);
  for (const message of messages) {
    if (!(await deliver([message], delivery))) return false;
  }
  return true;
}

/** Records a message that could not even be read, or could not be handled. */
export async function parkUntilRecorded(parked: Parked, delivery: Delivery): Promise<boolean> {
  delivery.log.error({ ...parked }, "A ledger message is parked: look at the reason, the consumer goes on after it");
  const end = await tryUntilSettled([], { ...delivery, handle: () => delivery.park(parked) });
  if (end.status === "failed") throw end.error;
  return end.status === "handled";
}

export function parkedOf(sequence: number, session: string, error: unknown, { consumer }: Delivery): Parked {
  const { code, message, next } = failureOf(error);
  return { consumer, sequence, session, code, reason: message, ...(next === undefined ? {} : { next }) };
}

type End = { status: "handled" } | { status: "stopped" } | { status: "failed"; error: unknown };

async function tryUntilSettled(messages: readonly LedgerMessage[], delivery: Delivery): Promise<End> {
  for (let tries = 1; ; tries++) {
    try {
      await delivery.handle(messages);
      return { status: "handled" };
    } catch (error) {
      const waitMs = retryWaitMs(error, tries);
      if (waitMs === undefined) return { status: "failed", error };
      const { consumer } = delivery;
      delivery.log.warn({ consumer, tries, waitMs, failure: failureOf(error) }, "Handling failed and is tried again");
      if (!(await waited(waitMs, delivery.stopping))) return { status: "stopped" };
    }
  }
}

function retryWaitMs(error: unknown, tries: number): number | undefined {
  const doubled = 2 ** Math.min(tries - 1, 20);
  if (error instanceof VersionConflict) return Math.min(CONFLICT_RETRY_MS * doubled, RETRY_WAIT_MS_MAX);
  if (!(error instanceof Retryable)) return undefined;
  return Math.max(error.retryAfterMs, Math.min(error.retryAfterMs * doubled, RETRY_WAIT_MS_MAX));
}

/** False when `signal` aborts first. */
export async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(ms, undefined, { signal });
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}
