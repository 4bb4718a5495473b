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

export type History = Readonly<{ entry: HistoryEntry; before: History; length: number }> | undefined;

export function withEntry(history: History, entry: HistoryEntry): History {
  return { entry, before: history, length: (history?.length ?? 0) + 1 };
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

/** More than fits into any model's window; a model without one would let the history grow for ever. */
export const HISTORY_ENTRIES_MAX = 10_000;
const ENTRIES_KEPT = HISTORY_ENTRIES_MAX / 2;

/** For the end of a turn: the older half of a history that is too long goes, whole turns of it. */
export function bounded(history: History): History {
  if (history === undefined || history.length <= HISTORY_ENTRIES_MAX) return history;
  const entries = entriesOf(history);
  const from = entries.findIndex(({ kind }, index) => kind === "ended" && index >= entries.length - ENTRIES_KEPT);
  const first = entries.find(({ kind }) => kind === "message");
  const notice: HistoryEntry = { kind: "notice", text: "The older part of this conversation is left out." };
  return from === -1 ? history : historyOf([...(first === undefined ? [] : [first]), notice, ...entries.slice(from)]);
}
