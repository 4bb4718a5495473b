// What the model is given, as the ledger tells it. Appending shares everything that was there before, so that a
// long session folds in linear time.
import type { z } from "zod";
import type { ReplyPart } from "#schemas/ledger/events/brain.ts";

export type Json = z.core.util.JSONType;

/** `failed`: the call did not do what was asked, whatever the reason. */
export type CallResult = Readonly<{ kind: "result"; callId: string; text: string; failed: boolean }>;

export type HistoryEntry =
  | Readonly<{ kind: "message"; messageId: string; text: string }>
  | Readonly<{ kind: "reply"; replyId: string; model: string; content: readonly ReplyPart[] }>
  | CallResult
  | Readonly<{ kind: "notice"; text: string }>
  /** Stands for what was said before it. */
  | Readonly<{ kind: "summary"; text: string }>
  | Readonly<{ kind: "ended"; reason: "completed" | "interrupted" | "failed" | "limit"; text: string | undefined }>;

export type History = Readonly<{ entry: HistoryEntry; before: History }> | undefined;

export function withEntry(history: History, entry: HistoryEntry): History {
  return { entry, before: history };
}

/** The entries, oldest first. */
export function entriesOf(history: History): HistoryEntry[] {
  const entries: HistoryEntry[] = [];
  for (let at = history; at !== undefined; at = at.before) entries.push(at.entry);
  return entries.reverse();
}

export function historyOf(entries: readonly HistoryEntry[]): History {
  return entries.reduce<History>(withEntry, undefined);
}
