// A session's ledger from its end (C134): the newest messages first, and pages back from there. A page costs the same
// however long the session is.
import { askDatabaseIfThere } from "#shared/database/ask.ts";
import { mirrorPage, mirrorPageBefore } from "#shared/database/mirror.ts";
import { decodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import { type LedgerMessage, NEW_SESSION } from "#shared/ledger/ledger.ts";
import { notFound, PAGE_CHARACTERS_MAX, type Page, type Pages } from "./pages.ts";
import { ledgerFrame } from "./view.ts";

/** The end, or the sequence that the page ends before. */
export type Before = number | "end";

/** At most `limit` messages, the newest before `before`, in order. Throws `session_not_found`. */
export async function readNewest(pages: Pages, session: string, before: Before, limit: number): Promise<Page> {
  const messages = (await newestBefore(pages, session, before, limit + 1)).slice(-limit - 1);
  if (messages.length === 0 && before === "end") throw notFound();
  const fitting = newestFitting(messages.slice(-limit));
  const cursor = fitting.at(-1)?.sequence ?? 0;
  const oldest = fitting[0]?.sequence ?? cursor;
  return { messages: fitting, cursor, oldest, more: fitting.length < messages.length };
}

async function newestBefore(pages: Pages, session: string, before: Before, limit: number): Promise<LedgerMessage[]> {
  const found = await fromMirror(pages, session, before, limit);
  const known = found === undefined ? undefined : await decoded(pages, [...found.rows, ...found.next]);
  const older = known?.slice(0, found?.rows.length);
  if (older !== undefined && found?.next.length === 1) return older;
  // What the mirror does not have yet; all of the session when it has a hole or is away.
  const last = older?.at(-1);
  const from = last === undefined ? NEW_SESSION : { sequence: last.sequence, hash: last.hash };
  const { messages } = await pages.ledger.read(session, from);
  const tail = before === "end" ? messages : messages.filter(({ sequence }) => sequence < before);
  return [...(older ?? []), ...tail];
}

/** `next`: the message that the page ends before. With it, nothing at the page's end is missing. */
function fromMirror({ database: { pool } }: Pages, session: string, before: Before, limit: number) {
  const sequence = before === "end" ? Number.MAX_SAFE_INTEGER : before;
  return askDatabaseIfThere(async () => {
    const rows = await mirrorPageBefore(pool, session, sequence, limit);
    return { rows, next: before === "end" ? [] : await mirrorPage(pool, session, before - 1, 1) };
  });
}

/** Undefined when one does not follow on the one before: the mirror has a hole there. */
async function decoded({ blobs }: Pages, rows: readonly StoredMessage[]): Promise<LedgerMessage[] | undefined> {
  const messages = await Promise.all(rows.map((row) => decodeMessage(row, blobs)));
  const isWhole = messages.every((message, index) => index === 0 || message.prev === messages[index - 1]?.hash);
  return isWhole ? messages : undefined;
}

/** As many of the newest as fit into a page; at least one. */
function newestFitting(messages: readonly LedgerMessage[]): readonly LedgerMessage[] {
  let characters = 0;
  const over = messages.findLastIndex((message) => {
    characters += ledgerFrame(message).length;
    return characters > PAGE_CHARACTERS_MAX;
  });
  return messages.slice(Math.min(over + 1, messages.length - 1));
}
