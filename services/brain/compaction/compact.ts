// Keeps a conversation below its model's context window (C85, C130). Old results are shortened first, then older
// turns are summarised, then every text is cut: each step at most once per request, and each is stored before its
// effect is seen, so that a brain that takes over sees the same history.
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { isModelOverflow, type ModelWindow } from "../models/model.ts";
import { systemPrompt } from "../prompt/system-prompt.ts";
import { entriesOf } from "../session/history.ts";
import type { Working } from "../session/session.ts";
import type { Toolbox } from "../tools/toolbox.ts";
import type { Known } from "../turn/calls.ts";
import { type TurnContext, working } from "../turn/context.ts";
import { olderPart, type Planned, plan, planCut, planShortening } from "./plan.ts";
import { type Size, sizeOf, tokensOfAll, tokensOfText } from "./size.ts";
import { summaryOf } from "./summary.ts";

/** Left free of the window: our estimate may be off by this share of it. */
const MARGIN_SHARE = 0.05;
/** How much of what may be used is left after compaction, so that the next steps need none. */
const TARGET_SHARE = 0.6;
const SUMMARY_SHARE = 0.2;
const SUMMARY_TOKENS_MAX = 8_000;
/** One turn that needs more is not getting anywhere (C130). */
export const COMPACTIONS_PER_TURN_MAX = 40;

/** Code of the Refusal for a conversation that cannot be made to fit. */
export const CONTEXT_OVERFLOW = "context_overflow";

/**
 * Makes a request that fits. When the provider says that it does not, the conversation is halved and asked with once
 * more. Throws a Refusal `context_overflow` when that is not enough either, and what `ask` throws.
 */
export async function withinWindow<Reply>(
  context: TurnContext,
  known: Known,
  ask: (known: Known) => Promise<Reply>,
): Promise<Reply> {
  const fitting = await fitted(context, known);
  try {
    return await ask(fitting);
  } catch (error) {
    if (!isModelOverflow(error)) throw error;
    await fitting.stored;
  }
  const half = await halved(context);
  try {
    return await ask(half);
  } catch (error) {
    throw isModelOverflow(error) ? overflow("its provider refuses even half of it", error) : error;
  }
}

/** Compacts before a request that would not fit. */
async function fitted(context: TurnContext, known: Known): Promise<Known> {
  const { window } = context.model;
  if (window === undefined) return known;
  const { tokens } = sizeOf(known.state, fixedTokens(context, known.state));
  const budget = requestTokensMax(window);
  if (tokens <= budget) return known;
  await known.stored;
  return { state: await compact(context, budget), stored: Promise.resolve() };
}

/** After the provider said that a request was too long: half of it has to do. */
async function halved(context: TurnContext): Promise<Known> {
  const state = working(context.record.state);
  const { tokens } = sizeOf(state, fixedTokens(context, state));
  const budget = Math.floor(tokens / 2);
  return { state: await compact(context, budget), stored: Promise.resolve() };
}

/** What a request may come to so that its reply fits as well. A window that its reply fills is shared evenly. */
function requestTokensMax({ contextTokens, outputTokensMax }: ModelWindow): number {
  const rest = contextTokens - outputTokensMax - Math.ceil(contextTokens * MARGIN_SHARE);
  return Math.max(rest, Math.floor(contextTokens / 2));
}

function fixedTokens({ tools }: TurnContext, { repository }: Working): number {
  return tokensOfText(systemPrompt({ hasRepository: repository !== undefined })) + toolTokens(tools);
}

// Toolboxes are made once, and theirs is the larger part.
const counted = new WeakMap<Toolbox, number>();

function toolTokens(tools: Toolbox): number {
  const known = counted.get(tools);
  if (known !== undefined) return known;
  const tokens = tokensOfText(JSON.stringify([...tools.values()].map(({ description }) => description)));
  counted.set(tools, tokens);
  return tokens;
}

async function compact(context: TurnContext, budget: number): Promise<Working> {
  const before = working(context.record.state);
  if (before.turn.compactions >= COMPACTIONS_PER_TURN_MAX) throw overflow("it was shortened too often in this turn");
  const fixed = fixedTokens(context, before);
  const size = sizeOf(before, fixed);
  // Plans are made in estimates; the provider counts `scale` times as much.
  const aim = Math.floor((budget * TARGET_SHARE) / size.scale) - fixed;
  context.live.progress("model", "The conversation is long: its older part is shortened");
  const shortened = planShortening(before.history, aim);
  if (shortened !== undefined) return store(context, shortened, size);
  const summarized = await planSummary(context, before, { aim, budget });
  const after = summarized === undefined ? before : await store(context, summarized, size);
  if (tokensOfAll(entriesOf(after.history)) <= aim) return after;
  const cut = planCut(after.history, aim);
  if (cut === undefined) throw overflow("it cannot be made short enough");
  return store(context, cut, size);
}

async function planSummary(
  { model, live, signals }: TurnContext,
  { history }: Working,
  { aim, budget }: { aim: number; budget: number },
): Promise<Planned | undefined> {
  const older = olderPart(history, aim);
  if (older === undefined) return undefined;
  const summaryTokensMax = Math.min(SUMMARY_TOKENS_MAX, Math.max(1, Math.floor(aim * SUMMARY_SHARE)));
  const bounds = { inputTokensMax: budget, summaryTokensMax };
  step("brain.compaction.asking");
  const summary = await summaryOf(model, older.entries, bounds, {
    signal: AbortSignal.any([signals.abandon, signals.halt]),
    onRetry: (why, afterMs) => live.progress("model", `${why.slice(0, 900)}; asked again in ${afterMs} ms`),
  });
  return plan(history, { kind: "summarized", uptoReplyId: older.uptoReplyId, ...summary });
}

async function store(
  { record, epoch, signals }: TurnContext,
  { compaction, tokens }: Planned,
  size: Size,
): Promise<Working> {
  const tokensAfter = Math.ceil(tokens * size.scale);
  step("brain.compaction.storing");
  await record.commit({ type: "CompactHistory", epoch, compaction, tokensBefore: size.tokens, tokensAfter });
  step("brain.compaction.stored");
  signals.halt.throwIfAborted();
  return working(record.state);
}

function overflow(why: string, cause?: unknown): Refusal {
  return new Refusal(CONTEXT_OVERFLOW, `The conversation does not fit into the model's context window: ${why}`, {
    cause,
    next: "Post a message to try again, or start a new session. contextTokens of this model in pistis.json must not be more than it has.",
  });
}
