// What a HistoryCompacted does to the history. The user's first message and those of the present turn always stay,
// and so does every call together with its result: what is left is a history that a provider takes (I6).
import type { Compaction, ReplyPart } from "#schemas/ledger/events/brain.ts";
import { entriesOf, type History, type HistoryEntry, historyOf, type Json } from "./history.ts";

type Reply = Extract<HistoryEntry, { kind: "reply" }>;

/** How much longer than asked for a shortened text may be: the words that say what is missing. */
const NOTE_CHARACTERS_MAX = 200;

/** The history after it; the same when it names a reply that is not there. Pure. */
export function compacted(history: History, compaction: Compaction): History {
  const entries = entriesOf(history);
  switch (compaction.kind) {
    case "results-shortened":
      return historyOf(resultsShortened(entries, compaction));
    case "summarized":
      return historyOf(summarized(entries, compaction));
    case "cut":
      return historyOf(entries.map((entry) => cut(entry, compaction.charactersMax)));
  }
}

/** Head and tail of a text with the exact count of what is between them; the text itself when it is short. */
export function headAndTail(text: string, charactersMax: number, hint = ""): string {
  const omitted = text.length - charactersMax;
  if (omitted <= NOTE_CHARACTERS_MAX) return text;
  const half = Math.floor(charactersMax / 2);
  const tail = half === 0 ? "" : text.slice(-half);
  const note = `[… ${text.length - 2 * half} characters left out here${hint} …]`;
  return `${text.slice(0, half)}\n${note}\n${tail}`.toWellFormed();
}

/** How many entries there are up to this reply and the last of its results; 0 when the reply is not there. */
export function lengthUpTo(entries: readonly HistoryEntry[], replyId: string): number {
  const at = entries.findIndex((entry) => entry.kind === "reply" && entry.replyId === replyId);
  const reply = entries[at];
  if (reply?.kind !== "reply") return 0;
  const calls = new Set(reply.content.flatMap((part) => (part.type === "tool-call" ? [part.callId] : [])));
  return (
    Math.max(
      at,
      entries.findLastIndex((entry) => entry.kind === "result" && calls.has(entry.callId)),
    ) + 1
  );
}

type Shortening = Extract<Compaction, { kind: "results-shortened" }>;

function resultsShortened(entries: readonly HistoryEntry[], { uptoReplyId, charactersMax }: Shortening) {
  const end = lengthUpTo(entries, uptoReplyId);
  return entries.map((entry, index) => {
    return index < end && entry.kind === "result" ? cut(entry, charactersMax) : entry;
  });
}

type Summarizing = Extract<Compaction, { kind: "summarized" }>;

function summarized(entries: readonly HistoryEntry[], { uptoReplyId, summary }: Summarizing): HistoryEntry[] {
  const end = lengthUpTo(entries, uptoReplyId);
  if (end === 0) return [...entries];
  const older = entries.slice(0, end);
  const first = older.find(({ kind }) => kind === "message");
  const turnStart = entries.findLastIndex(({ kind }) => kind === "ended");
  const ofTurn = older.filter((entry, index) => entry.kind === "message" && entry !== first && index > turnStart);
  return [
    ...(first === undefined ? [] : [first]),
    { kind: "summary", text: summary },
    ...ofTurn,
    ...entries.slice(end),
  ];
}

function cut(entry: HistoryEntry, charactersMax: number): HistoryEntry {
  switch (entry.kind) {
    case "message":
    case "notice":
    case "summary":
      return { ...entry, text: headAndTail(entry.text, charactersMax) };
    case "result":
      return { ...entry, text: headAndTail(entry.text, charactersMax, whereResultsAre(entry.callId)) };
    case "reply":
      return cutReply(entry, charactersMax);
    case "ended":
      return entry;
  }
}

function whereResultsAre(callId: string): string {
  return `; bash_output with handle "${callId}" may still have them`;
}

/** A reply that is not given as it was loses its reasoning: a provider checks that against the rest of the reply. */
function cutReply(reply: Reply, charactersMax: number): Reply {
  const content = reply.content.map((part) => cutPart(part, charactersMax));
  if (content.every((part, index) => part === reply.content[index])) return reply;
  return { ...reply, content: content.filter(({ type }) => type !== "reasoning") };
}

function cutPart(part: ReplyPart, charactersMax: number): ReplyPart {
  switch (part.type) {
    case "text":
    case "reasoning":
      return isLong(part.text, charactersMax) ? { ...part, text: headAndTail(part.text, charactersMax) } : part;
    case "tool-call": {
      const input = cutJson(part.input, charactersMax);
      return input === part.input ? part : { ...part, input };
    }
  }
}

function cutJson(json: Json, charactersMax: number): Json {
  if (!isLong(JSON.stringify(json), charactersMax)) return json;
  if (typeof json === "string") return headAndTail(json, charactersMax);
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return headAndTail(JSON.stringify(json), charactersMax);
  const fields = Object.entries(json);
  const each = Math.floor(charactersMax / Math.max(1, fields.length));
  return Object.fromEntries(fields.map(([name, value]) => [name.slice(0, 100), cutJson(value, each)]));
}

function isLong(text: string, charactersMax: number): boolean {
  return text.length - charactersMax > NOTE_CHARACTERS_MAX;
}
