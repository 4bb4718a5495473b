// Whether the ledger may be appended to. A start checks it against the mirror (access.ts); so does every connection that
// was made anew, since the server behind it may have come back without its tail. Nothing is sent from the moment in which
// the connection broke until that check has an answer, and after a loss nothing until the ledger is whole again: what is
// written then takes the place of what could be put back.
//
// A check that PostgreSQL does not answer holds nobody up for long: turns go on without it, and it goes on being asked. Both
// may be away together, after a power failure say, and PostgreSQL for longer. Until it answers this process goes by
// what it knows itself: the last message that it appended has to be there.
import { setTimeout as delay } from "node:timers/promises";
import { Events, type NatsConnection } from "nats";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import type { MirrorScan } from "#shared/ledger/mirror.ts";
import type { Log } from "#shared/service/log.ts";
import { WHOLE_LEDGER } from "./scan.ts";
import { requireWhole, standingOf } from "./standing.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

/** How long appends wait for the check once the server is there again. */
const CHECK_MS_MAX = 2_000;
const CHECK_AGAIN_MS = 2_000;

export type LossGuard = Readonly<{
  /**
   * Resolves when something may be sent. Throws a Retryable: with the code and next step of `requireWhole` after a
   * loss, since a repair mends it, or `ledger_tail_lost` while PostgreSQL cannot tell; `ledger_unavailable` when there
   * is no server within that time.
   */
  mayAppend: (withinMs: number) => Promise<void>;
  /** To be told of what the server has acknowledged. */
  stored: (message: Stored) => void;
}>;

type Stored = Readonly<{ sequence: number; messageId: string }>;

type Guarded = Readonly<{ nats: NatsConnection; mirror: MirrorScan; log: Log }>;
type Guard = {
  /** While the connection is broken or not checked. */
  closed: PromiseWithResolvers<void> | undefined;
  lost: Refusal | undefined;
  /** How many were made anew. */
  connections: number;
  last: Stored | undefined;
};

/** It ends with the connection. */
export function openLossGuard(guarded: Guarded): LossGuard {
  const guard: Guard = { closed: undefined, lost: undefined, connections: 0, last: undefined };
  watchConnection(guarded, guard).catch((error: unknown) =>
    guarded.log.error({ failure: failureOf(error) }, "The ledger is not checked at new connections any more"),
  );
  return {
    mayAppend: async (withinMs) => {
      if (guard.closed !== undefined) await within(withinMs, guard.closed.promise);
      if (guard.lost !== undefined) throw untilRepaired(guard.lost);
    },
    stored: (message) => {
      if (message.sequence > (guard.last?.sequence ?? 0)) guard.last = message;
    },
  };
}

async function watchConnection(guarded: Guarded, guard: Guard): Promise<void> {
  for await (const { type } of guarded.nats.status()) {
    if (type === Events.Disconnect) guard.closed ??= Promise.withResolvers<void>();
    if (type !== Events.Reconnect) continue;
    guard.connections++;
    void checkNewConnection(guarded, guard);
  }
  open(guard);
}

function open(guard: Guard): void {
  guard.closed?.resolve();
  guard.closed = undefined;
}

async function checkNewConnection(guarded: Guarded, guard: Guard): Promise<void> {
  const { connections } = guard;
  const isNewest = () => guard.connections === connections && !guarded.nats.isClosed();
  const patience = setTimeout(() => isNewest() && open(guard), CHECK_MS_MAX).unref();
  // After a loss as well: a repair may put it back.
  while (isNewest()) {
    const isAnswered = await check(guarded, guard);
    if (isAnswered && isNewest()) {
      clearTimeout(patience);
      open(guard);
    }
    if (isAnswered && guard.lost === undefined) return;
    await delay(CHECK_AGAIN_MS, undefined, { ref: false });
  }
}

/** False when PostgreSQL cannot tell now. */
async function check(guarded: Guarded, guard: Guard): Promise<boolean> {
  const { nats, mirror, log } = guarded;
  try {
    requireWhole(await standingOf(nats, mirror));
    if (guard.lost !== undefined) log.warn({}, "The ledger is whole again: appends go on");
    guard.lost = undefined;
    return true;
  } catch (error) {
    if (error instanceof Refusal) {
      noteLoss(guarded, guard, error);
      return true;
    }
    const fields = { failure: failureOf(error) };
    log.warn(fields, "Whether the ledger is whole after a new connection cannot be told yet");
    await checkOwn(guarded, guard);
    return false;
  }
}

async function checkOwn(guarded: Guarded, guard: Guard): Promise<void> {
  const { last } = guard;
  if (last === undefined) return;
  try {
    const found = await nextMessage(guarded.nats, last.sequence, WHOLE_LEDGER);
    if (found?.sequence === last.sequence && found.messageId === last.messageId) return;
    noteLoss(guarded, guard, withoutOwn(last));
  } catch (error) {
    if (!(error instanceof Retryable)) throw error;
    guarded.log.warn({ failure: failureOf(error) }, "Nor can the ledger tell");
  }
}

function withoutOwn({ sequence }: Stored): Refusal {
  const next = "See that PostgreSQL runs, which tells what was lost; then `pistis ledger repair` puts it back";
  return new Refusal("ledger_tail_lost", `The ledger has lost message ${sequence}, which it had acknowledged`, {
    next,
  });
}

function noteLoss({ log }: Guarded, guard: Guard, loss: Refusal): void {
  const fields = { failure: failureOf(loss) };
  if (guard.lost === undefined) log.error(fields, "THE LEDGER HAS LOST MESSAGES: nothing is appended any more");
  guard.lost = loss;
}

function untilRepaired(lost: Refusal): Retryable {
  const { code, message, next } = lost;
  const options = { cause: lost, retryAfterMs: CHECK_AGAIN_MS };
  return new Retryable(code, message, next === undefined ? options : { ...options, next });
}

async function within(timeMs: number, opened: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(unavailable("There is no connection to NATS")), timeMs);
  await Promise.race([opened, late.promise]).finally(() => clearTimeout(timer));
}
