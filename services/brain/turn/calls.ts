// The calls of one reply. Those that only read run side by side; as soon as one changes something, they run in
// order, each started just before it leaves. The ledger's state alone says what is next, so a brain that takes
// over goes on the same way.
import { step } from "#shared/faults/step.ts";
import { openCalls } from "../session/questions.ts";
import type { Call, Working } from "../session/session.ts";
import { notRun, runCall } from "./call.ts";
import { type TurnContext, working } from "./context.ts";
import type { Bench } from "./workplace.ts";

/** What the loop knows: `state` holds as soon as `stored` resolves. */
export type Known = Readonly<{ state: Working; stored: Promise<unknown> }>;

/** Runs every open call, or as many as may still start when Stop is pressed. */
export async function runCalls(context: TurnContext): Promise<Known> {
  for (;;) {
    const state = working(context.record.state);
    const open = openCalls(state);
    const started = open.filter(({ status }) => status === "started");
    if (started.length > 0) {
      const known = await finish(context, started, open.length - started.length);
      if (known !== undefined) return known;
      continue;
    }
    if (open.length === 0 || context.signals.halt.aborted) return { state, stored: Promise.resolve() };
    const { sandboxId } = await context.workplace.prepare();
    step("brain.calls.starting");
    await context.record.commit({ type: "StartCalls", epoch: context.epoch, callIds: batch(context, open), sandboxId });
    step("brain.calls.stored");
  }
}

/** The calls that may be under way together, first ones first. */
export function batch(
  { tools }: Pick<TurnContext, "tools">,
  asked: readonly Pick<Call, "callId" | "tool">[],
): string[] {
  const isReading = asked.every(({ tool }) => tools.get(tool)?.effect === "reads");
  return (isReading ? asked : asked.slice(0, 1)).map(({ callId }) => callId);
}

async function finish(context: TurnContext, started: readonly Call[], askedCount: number): Promise<Known | undefined> {
  const bench = context.workplace.now ?? (await prepared(context, started));
  const [only] = started;
  if (only !== undefined && started.length === 1) return finishOne(context, only, { bench, isLast: askedCount === 0 });
  await Promise.all(started.map((call) => finishOne(context, call, { bench, isLast: false })));
  return undefined;
}

/**
 * The sandbox for calls that are stored as started and that this brain has not sent: those of another one were
 * closed when the turn was taken over. When there is no sandbox after all, this brain knows that they did not run.
 */
async function prepared(context: TurnContext, unsent: readonly Call[]): Promise<Bench> {
  try {
    return await context.workplace.prepare();
  } catch (error) {
    if (!context.signals.abandon.aborted) await closeUnsent(context, unsent);
    throw error;
  }
}

async function closeUnsent({ record, epoch }: TurnContext, unsent: readonly Call[]): Promise<void> {
  const text = "This call did not run: it had not left when the turn ended.";
  for (const { callId } of unsent) {
    await record.commit({ type: "FinishCall", epoch, end: notRun(callId, "not_sent", text) });
  }
}

async function finishOne(
  context: TurnContext,
  call: Call,
  { bench, isLast }: { bench: Bench; isLast: boolean },
): Promise<Known | undefined> {
  const { record, epoch } = context;
  const end = await runCall(context, call, bench.link);
  step("brain.call.answered");
  if (isLast) {
    const { ahead, stored } = record.commitAhead({ type: "FinishCall", epoch, end });
    step("brain.call.storing");
    return { state: working(ahead), stored };
  }
  const asked = openCalls(working(record.state)).filter(({ status }) => status === "asked");
  const place = context.workplace.now;
  const next = place && asked.length > 0 ? { callIds: batch(context, asked), sandboxId: place.sandboxId } : undefined;
  await record.commit({ type: "FinishCall", epoch, end, next });
  step("brain.call.stored");
  return undefined;
}
