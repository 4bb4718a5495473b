// Whether the ledger may be appended to. A start checks it against the mirror (access.ts); so does every connection that
// was made anew, since the server behind it may have come back without its tail. Nothing is sent from the moment in which
// the connection broke until that check has an answer, and after a loss nothing until the ledger is whole again: what is
// written then takes the place of what could be put back.
//
// What this process knows itself comes first, and needs the ledger alone: the last message that it appended has to be
// there. PostgreSQL may be away too, after a power failure say, and for longer, or not have got that message yet. A check
// that it does not answer holds nobody up for long: turns go on without it, and it goes on being asked.
import { setTimeout as delay } from "node:timers/promises";
import { Events, type NatsConnection } from "nats";
import { askDatabase } from "#shared/database/ask.ts";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import type { MirrorScan } from "#shared/ledger/mirror.ts";
import type { Log } from "#shared/service/log.ts";
import { WHOLE_LEDGER } from "./scan.ts";
import { requireWhole, standingOf } from "./standing.ts";
import { nextMessage, unavailable } from "./stream-reader.ts";

/** How long appends wait for PostgreSQL once the server is there again. */
const CHECK_MS_MAX = 2_000;
const CHECK_AGAIN_MS = 2_000;
/** Nobody may append meanwhile. */
const OWN_AGAIN_MS = 500;

export type LossGuard = Readonly<{
  /**
   * Resolves when something may be sent. Throws a Retryable: with the code and next step of `requireWhole` after a
   * loss, since a repair mends it, or `ledger_tail_lost` when only this process can tell; `ledger_unavailable` when
   * there is no server within that time.
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
  /** Counts what broke or was made anew: a check of an earlier time says nothing any more. */
  changes: number;
  last: Stored | undefined;
};

/** It ends with the connection. */
export function openLossGuard(guarded: Guarded): LossGuard {
  const guard: Guard = { closed: undefined, lost: undefined, changes: 0, last: undefined };
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
    if (type !== Events.Disconnect && type !== Events.Reconnect) continue;
    guard.changes++;
    guard.closed ??= Promise.withResolvers<void>();
    if (type === Events.Reconnect) void checkNewConnection(guarded, guard);
  }
  open(guard);
}

function open(guard: Guard): void {
  guard.closed?.resolve();
  guard.closed = undefined;
}

async function checkNewConnection(guarded: Guarded, guard: Guard): Promise<void> {
  const { changes } = guard;
  const isNewest = () => guard.changes === changes && !guarded.nats.isClosed();
  let patience: NodeJS.Timeout | undefined;
  // After a loss as well: a repair may put it back.
  while (isNewest()) {
    const own = await asked(guarded, () => requireOwn(guarded, guard));
    if (own !== undefined && isNewest()) {
      if (own.loss !== undefined) noteLoss(guarded, guard, own.loss);
      patience ??= setTimeout(() => isNewest() && open(guard), CHECK_MS_MAX).unref();
      const both = await asked(guarded, () => requireBoth(guarded));
      if (both !== undefined && isNewest()) {
        clearTimeout(patience);
        settle(guarded, guard, both.loss ?? own.loss);
        if (guard.lost === undefined) return;
      }
    }
    await delay(own === undefined ? OWN_AGAIN_MS : CHECK_AGAIN_MS, undefined, { ref: false });
  }
}

type Answer = Readonly<{ loss: Refusal | undefined }>;

/** Undefined when it cannot be told now. */
async function asked({ log }: Guarded, requirement: () => Promise<void>): Promise<Answer | undefined> {
  try {
    await requirement();
    return { loss: undefined };
  } catch (error) {
    if (error instanceof Refusal) return { loss: error };
    const fields = { failure: failureOf(error) };
    log.warn(fields, "Whether the ledger is whole after a new connection cannot be told yet");
    return undefined;
  }
}

async function requireOwn({ nats }: Guarded, { last }: Guard): Promise<void> {
  if (last === undefined) return;
  const found = await nextMessage(nats, last.sequence, WHOLE_LEDGER);
  if (found?.sequence !== last.sequence || found.messageId !== last.messageId) throw withoutOwn(last);
}

async function requireBoth({ nats, mirror }: Guarded): Promise<void> {
  const lastUpTo = (sequence?: number) => askDatabase(() => mirror.lastUpTo(sequence), CHECK_MS_MAX);
  requireWhole(await standingOf(nats, { ...mirror, lastUpTo }));
}

function withoutOwn({ sequence }: Stored): Refusal {
  const next =
    "See that PostgreSQL runs, which tells what was lost; then `pistis ledger repair` puts it back. Where it finds nothing missing, that message is lost for good: start this service again";
  return new Refusal("ledger_tail_lost", `The ledger has lost message ${sequence}, which it had acknowledged`, {
    next,
  });
}

function settle(guarded: Guarded, guard: Guard, loss: Refusal | undefined): void {
  if (loss !== undefined) noteLoss(guarded, guard, loss);
  else if (guard.lost !== undefined) guarded.log.warn({}, "The ledger is whole again: appends go on");
  guard.lost = loss;
  open(guard);
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
