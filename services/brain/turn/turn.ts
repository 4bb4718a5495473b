// The loop of one turn: model, calls, model, … until there is nothing left to do, a limit is reached, the user
// presses Stop, or something fails in a way that a person has to know about.
import { setImmediate as nextTurn } from "node:timers/promises";
import { WireCode } from "#schemas/wire/message.ts";
import { type Failure, failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { CONTEXT_OVERFLOW, withinWindow } from "../compaction/compact.ts";
import type { TurnEnding } from "../session/decide.ts";
import { isAllSaid, steering } from "../session/questions.ts";
import type { Turn } from "../session/session.ts";
import { clipped } from "../tools/excerpt.ts";
import { type Known, runCalls } from "./calls.ts";
import { Abandoned, type TurnContext, working } from "./context.ts";
import { recoverCalls } from "./recovery.ts";
import { askModel, recordReply } from "./reply.ts";

const COMPLETED: TurnEnding = { reason: "completed" };

/** A turn whose start, or whose taking over, may still be on its way to the ledger. */
export type Begun = Known & Readonly<{ isNew: boolean }>;

/**
 * Works on the turn that this brain owns under `context.epoch` once `begun.stored` has resolved, until it has ended.
 * Throws when it must be left open for another brain, or for this one later: Abandoned, a deposition, a ledger that
 * cannot be reached; and what `begun.stored` rejects with.
 */
export async function runTurn(context: TurnContext, begun: Begun): Promise<void> {
  try {
    await steps(context, begun);
  } catch (error) {
    // A turn that is not in the ledger cannot be ended.
    await begun.stored;
    const { abandon, halt } = context.signals;
    if (abandon.aborted || (await isNotOurs(context, error))) {
      throw new Abandoned("The turn goes on elsewhere", { cause: error });
    }
    if (halt.aborted) return endTurn(context, { reason: "interrupted" });
    if (error instanceof Retryable && !error.code.startsWith("model_")) throw error;
    const { record, log } = context;
    log.warn({ session: record.session, err: error }, "the turn failed");
    const reason = error instanceof Refusal && error.code === CONTEXT_OVERFLOW ? "limit" : "failed";
    const failure = failureOf(isStale(error) ? epochIsNewer(error) : error);
    await endTurn(context, { reason, failure: limited(failure) });
  }
}

async function steps(context: TurnContext, begun: Begun): Promise<void> {
  if (!begun.isNew) await recoverCalls(context);
  // The sandbox gets ready while the model thinks; whoever needs it first hears why it does not.
  const preparing = begun.stored.then(() => context.workplace.prepare()).catch(() => undefined);
  let known: Known = begun.isNew ? withSandbox(begun, preparing) : await runCalls(context);
  for (;;) {
    context.signals.halt.throwIfAborted();
    known = await deliver(context, known);
    // What the turn went on for after its last reply may have been withdrawn meanwhile.
    const ending = isAllSaid(known.state) ? COMPLETED : limitReached(context, known.state.turn);
    if (ending !== undefined) {
      await known.stored;
      return endTurn(context, ending);
    }
    const replied = await withinWindow(context, known, (fitting) => askModel(context, fitting));
    const after = await recordReply(context, replied);
    if (after.status !== "working") return;
    known = await runCalls(context);
  }
}

/** A warm sandbox is ready in no time, and then the first calls start in one append with the reply that asks for them. */
function withSandbox({ state, stored }: Known, preparing: Promise<unknown>): Known {
  const ready = stored.then(() => Promise.race([preparing, nextTurn()]));
  ready.catch(() => undefined);
  return { state, stored: ready };
}

/** Gives the model what was posted meanwhile. Nothing waits in the usual case, and then nothing is waited for. */
async function deliver({ record, epoch }: TurnContext, known: Known): Promise<Known> {
  if (steering(known.state).length === 0) return known;
  await known.stored;
  step("brain.messages.delivering");
  const state = working(await record.commit({ type: "DeliverMessages", epoch }));
  step("brain.messages.delivered");
  return { state, stored: Promise.resolve() };
}

function limitReached({ config: { limits } }: TurnContext, { steps: taken, costUsd }: Turn): TurnEnding | undefined {
  const { stepsPerTurnMax, costUsdPerTurnMax } = limits;
  const next = (key: string) => `Post a message to go on in a new turn, or raise limits.${key} in pistis.json.`;
  if (taken >= stepsPerTurnMax) {
    const message = `The turn made ${taken} model requests, as many as one turn may.`;
    return { reason: "limit", failure: { code: "steps", message, next: next("stepsPerTurnMax") } };
  }
  if (costUsdPerTurnMax !== undefined && costUsd >= costUsdPerTurnMax) {
    const message = `The turn has cost ${costUsd.toFixed(4)} US dollars; one turn may cost ${costUsdPerTurnMax}.`;
    return { reason: "limit", failure: { code: "cost", message, next: next("costUsdPerTurnMax") } };
  }
  return undefined;
}

async function endTurn({ record, epoch }: TurnContext, ending: TurnEnding): Promise<void> {
  step("brain.turn.ending");
  await record.commit({ type: "EndTurn", epoch, ending });
  step("brain.turn.ended");
}

/** Another brain owns the turn, or it is over: the ledger says so. A sandbox can lie, so what it says is looked up. */
async function isNotOurs({ record, epoch }: TurnContext, error: unknown): Promise<boolean> {
  if (!isStale(error)) return error instanceof Refusal && error.code === "deposed";
  await record.catchUp();
  const { state } = record;
  return state.status !== "working" || state.turn.epoch !== epoch;
}

function isStale(error: unknown): error is Refusal {
  return error instanceof Refusal && error.code === WireCode.epochStale;
}

/** The sandbox lies, or the ledger has lost what the sandbox still knows; every turn has a newer epoch than the last. */
function epochIsNewer(cause: Refusal): Refusal {
  return new Refusal("sandbox_epoch_newer", "The sandbox refuses this turn: it names a newer one, which never was", {
    cause,
    next: "Post a message to try again in a new turn. When that never helps, end the session: the sandbox may be lying.",
  });
}

function limited({ code, message, next }: Failure): Failure {
  const texts = { code: code.slice(0, 100), message: clipped(message, 3_900) };
  return next === undefined ? texts : { ...texts, next: clipped(next, 1_900) };
}
