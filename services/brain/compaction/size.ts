// How many tokens a history comes to. Nobody but the provider can say exactly: what it counted for the last request
// is the base, and only what was added since is estimated.
import type { HistoryEntry } from "../session/history.ts";
import type { Working } from "../session/session.ts";

/**
 * Bytes of UTF-8 per token, low on purpose. Providers speak of 4 (OpenAI) and 3.5 (Anthropic) characters of English;
 * code, JSON and other scripts take more tokens for as many bytes.
 */
export const BYTES_PER_TOKEN = 3;
/** What a provider adds to each message: its role and its borders. */
const ENTRY_TOKENS = 8;
/** A provider's count is believed within these bounds of the estimate: some count wrongly, or not what is cached. */
const SCALE_MIN = 0.5;
const SCALE_MAX = 4;

export type Size = Readonly<{
  /** Of the next request, without its reply. */
  tokens: number;
  /** What an estimate has to be multiplied with to come to what the provider counts. */
  scale: number;
}>;

/** `fixedTokens`: the estimate of what goes with every request, the system prompt and the tools. */
export function sizeOf({ history, measured }: Pick<Working, "history" | "measured">, fixedTokens: number): Size {
  let since = 0;
  let upto = fixedTokens;
  let isCounted = false;
  for (let at = history; at !== undefined; at = at.before) {
    isCounted ||= at.entry.kind === "reply" && at.entry.replyId === measured?.replyId;
    if (isCounted) upto += tokensOf(at.entry);
    else since += tokensOf(at.entry);
  }
  if (!isCounted || measured === undefined) return { tokens: upto + since, scale: 1 };
  const scale = Math.min(Math.max(measured.tokens / upto, SCALE_MIN), SCALE_MAX);
  return { tokens: Math.ceil(upto * scale + since * Math.max(1, scale)), scale };
}

/** An estimate. */
export function tokensOfAll(entries: readonly HistoryEntry[]): number {
  return entries.reduce((tokens, entry) => tokens + tokensOf(entry), 0);
}

export function tokensOfText(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

// Entries never change, and each is looked at before every request.
const known = new WeakMap<HistoryEntry, number>();

function tokensOf(entry: HistoryEntry): number {
  const counted = known.get(entry);
  if (counted !== undefined) return counted;
  const text = entry.kind === "reply" ? JSON.stringify(entry.content) : (entry.text ?? "");
  const tokens = ENTRY_TOKENS + tokensOfText(text);
  known.set(entry, tokens);
  return tokens;
}
