// Whether the ledger may be appended to. A start checks it against the mirror (access.ts); so does every connection that
// was made anew, since the server behind it may have come back without its tail. Nothing is sent from the moment in which
// the connection broke until that check has an answer, and after a loss nothing until the ledger is whole again: what is
// written then takes the place of what could be put back.
//
// A check that PostgreSQL does not answer holds nobody up for long: turns go on without it, and it goes on being asked.
import { setTimeout as delay } from "node:timers/promises";
import { Events, type NatsConnection } from "nats";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import type { MirrorScan } from "#shared/ledger/mirror.ts";
import type { Log } from "#shared/service/log.ts";
import { requireWhole, standingOf } from "./standing.ts";
import { unavailable } from "./stream-reader.ts";

/** How long appends wait for the check once the server is there again. */
const CHECK_MS_MAX = 2_000;
const CHECK_AGAIN_MS = 2_000;

export type LossGuard = Readonly<{
  /**
   * Resolves when something may be sent. Throws a Retryable: with the code and next step of `requireWhole` after a
   * loss, since a repair mends it; `ledger_unavailable` when there is no server within that time.
   */
  mayAppend: (withinMs: number) => Promise<void>;
}>;

type Guarded = Readonly<{ nats: NatsConnection; mirror: MirrorScan; log: Log }>;
/** `closed` while the connection is broken or not checked. `connections` counts those that were made anew. */
type Guard = { closed: PromiseWithResolvers<void> | undefined; lost: Refusal | undefined; connections: number };

/** It ends with the connection. */
export function openLossGuard(guarded: Guarded): LossGuard {
  const guard: Guard = { closed: undefined, lost: undefined, connections: 0 };
  watchConnection(guarded, guard).catch((error: unknown) =>
    guarded.log.error({ failure: failureOf(error) }, "The ledger is not checked at new connections any more"),
  );
  return {
    mayAppend: async (withinMs) => {
      if (guard.closed !== undefined) await within(withinMs, guard.closed.promise);
      if (guard.lost !== undefined) throw untilRepaired(guard.lost);
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

/** False when nobody can tell now. */
async function check({ nats, mirror, log }: Guarded, guard: Guard): Promise<boolean> {
  try {
    requireWhole(await standingOf(nats, mirror));
    if (guard.lost !== undefined) log.warn({}, "The ledger is whole again: appends go on");
    guard.lost = undefined;
    return true;
  } catch (error) {
    const fields = { failure: failureOf(error) };
    if (!(error instanceof Refusal)) {
      log.warn(fields, "Whether the ledger is whole after a new connection cannot be told yet");
      return false;
    }
    if (guard.lost === undefined) log.error(fields, "THE LEDGER HAS LOST MESSAGES: nothing is appended any more");
    guard.lost = error;
    return true;
  }
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
