// What to compact so that a history comes below a number of tokens. Pure; tried on the fold itself, so that what is
// planned is what will be.
import type { Compaction } from "#schemas/ledger/events/brain.ts";
import { compacted, lengthUpTo } from "../session/compaction.ts";
import { entriesOf, type History, type HistoryEntry } from "../session/history.ts";
import { tokensOfAll } from "./size.ts";

/** What is left of an old result. */
export const OLD_RESULT_CHARACTERS_MAX = 2_000;
/** How much of what may stay is given to what was said last, when the rest is summarised. */
const RECENT_SHARE = 0.5;
/** Tried one after the other when even the newest texts have to be cut. */
const CUTS = [64_000, 32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500, 200];

export type Planned = Readonly<{ compaction: Compaction; tokens: number }>;

/** The fewest old results to shorten; undefined when that is not enough. The newest reply's results stay whole. */
export function planShortening(history: History, tokensMax: number): Planned | undefined {
  const replies = repliesOf(entriesOf(history)).slice(0, -1);
  const tried = (index: number) => {
    const uptoReplyId = replies[index];
    if (uptoReplyId === undefined) return undefined;
    const charactersMax = OLD_RESULT_CHARACTERS_MAX;
    return plan(history, { kind: "results-shortened", uptoReplyId, charactersMax });
  };
  if ((tried(replies.length - 1)?.tokens ?? Number.POSITIVE_INFINITY) > tokensMax) return undefined;
  let [enough, tooFew] = [replies.length - 1, -1];
  while (enough - tooFew > 1) {
    const middle = Math.floor((enough + tooFew) / 2);
    if ((tried(middle)?.tokens ?? 0) <= tokensMax) enough = middle;
    else tooFew = middle;
  }
  return tried(enough);
}

export type Older = Readonly<{ uptoReplyId: string; entries: readonly HistoryEntry[] }>;

/** The part that a summary has to stand for, never the newest reply; undefined when there is no other. */
export function olderPart(history: History, tokensMax: number): Older | undefined {
  const entries = entriesOf(history);
  const replies = repliesOf(entries).slice(0, -1);
  const fits = (replyId: string) =>
    tokensOfAll(entries.slice(lengthUpTo(entries, replyId))) <= tokensMax * RECENT_SHARE;
  const uptoReplyId = replies.find(fits) ?? replies.at(-1);
  if (uptoReplyId === undefined) return undefined;
  return { uptoReplyId, entries: entries.slice(0, lengthUpTo(entries, uptoReplyId)) };
}

/** The longest texts that fit; undefined when there is no such length. */
export function planCut(history: History, tokensMax: number): Planned | undefined {
  for (const charactersMax of CUTS) {
    const planned = plan(history, { kind: "cut", charactersMax });
    if (planned.tokens <= tokensMax) return planned;
  }
  return undefined;
}

export function plan(history: History, compaction: Compaction): Planned {
  return { compaction, tokens: tokensOfAll(entriesOf(compacted(history, compaction))) };
}

function repliesOf(entries: readonly HistoryEntry[]): string[] {
  return entries.flatMap((entry) => (entry.kind === "reply" ? [entry.replyId] : []));
}
