// A session's ledger by cursor. Pages come from the mirror, by index, and what it does not have yet from the
// ledger's tail; so a page costs the same however long the session is.

import type { Blobs } from "#shared/blobs/blobs.ts";
import { askDatabaseIfThere } from "#shared/database/ask.ts";
import type { Database } from "#shared/database/database.ts";
import { mirrorAnchor, mirrorPage } from "#shared/database/mirror.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { decodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";
import { ledgerFrame } from "./view.ts";

export type Pages = Readonly<{ ledger: Ledger; database: Database; blobs: Blobs }>;

export type Page = Readonly<{
  messages: readonly LedgerMessage[];
  /** Of the last message. */
  cursor: number;
  /** Of the first message. */
  oldest: number;
  /** There are others, in the direction that was read in. */
  more: boolean;
}>;

/** A page ends early when its messages, as the API shows them, come to more than this. */
export const PAGE_CHARACTERS_MAX = 8 * 1024 * 1024;

/** At most `limit` messages after the sequence `after`, in order. Throws `session_not_found`. */
export async function readPage(pages: Pages, session: string, after: number, limit: number): Promise<Page> {
  const { anchor, mirrored, isThere } = await fromMirror(pages.database, session, after, limit + 1);
  const known = isThere ? await decodeUpTo(mirrored, pages.blobs, anchor) : undefined;
  const complete = known !== undefined && known.length < mirrored.length;
  const isFull = complete || (known !== undefined && mirrored.length > limit);
  const tail = isFull ? [] : await tailOf(pages.ledger, session, versionAt(known, anchor));
  const messages = [...(known ?? []), ...tail.filter(({ sequence }) => sequence > after)];
  if (messages.length === 0 && tail.length === 0 && anchor === undefined) throw notFound();
  const page = messages.slice(0, Math.min(limit, fitting(messages)));
  const more = page.length < messages.length || complete;
  const cursor = page.at(-1)?.sequence ?? after;
  return { messages: page, cursor, oldest: page[0]?.sequence ?? cursor, more };
}

/** Without the database a page is read from the ledger's start, which takes longer the longer the session is. */
async function fromMirror({ pool }: Database, session: string, after: number, limit: number) {
  const rows = await askDatabaseIfThere(async () => ({
    anchor: after === 0 ? undefined : await mirrorAnchor(pool, session, after),
    mirrored: await mirrorPage(pool, session, after, limit),
  }));
  return rows === undefined ? { anchor: undefined, mirrored: [], isThere: false } : { ...rows, isThere: true };
}

/** As many as fit into a page, each naming the one before it. Undefined: the mirror has a hole there. */
async function decodeUpTo(
  mirrored: readonly StoredMessage[],
  blobs: Blobs,
  anchor: StoredMessage | undefined,
): Promise<LedgerMessage[] | undefined> {
  const decoded: LedgerMessage[] = [];
  let before = anchor === undefined ? "" : sha256(anchor.bytes);
  let characters = 0;
  for (const stored of mirrored) {
    if (characters > PAGE_CHARACTERS_MAX) break;
    const message = await decodeMessage(stored, blobs);
    if (message.prev !== before) return undefined;
    before = message.hash;
    characters += ledgerFrame(message).length;
    decoded.push(message);
  }
  return decoded;
}

/** The number of messages that fit into a page; at least one. */
function fitting(messages: readonly LedgerMessage[]): number {
  let characters = 0;
  const over = messages.findIndex((message) => {
    characters += ledgerFrame(message).length;
    return characters > PAGE_CHARACTERS_MAX;
  });
  return over === -1 ? messages.length : Math.max(over, 1);
}

async function tailOf(ledger: Ledger, session: string, from: Version): Promise<LedgerMessage[]> {
  return (await ledger.read(session, from)).messages;
}

/** Where the ledger's tail begins: after the last that the mirror gave; at the start when the mirror has a hole. */
function versionAt(known: readonly LedgerMessage[] | undefined, anchor: StoredMessage | undefined): Version {
  const last = known?.at(-1);
  if (last !== undefined) return { sequence: last.sequence, hash: last.hash };
  if (known === undefined || anchor === undefined) return NEW_SESSION;
  return { sequence: anchor.sequence, hash: sha256(anchor.bytes) };
}

export function notFound(): Refusal {
  return new Refusal("session_not_found", "There is no such session", { next: "List the sessions for their ids." });
}
