// A session's ledger by cursor. Pages come from the mirror, by index, and what it does not have yet from the
// ledger's tail; so a page costs the same however long the session is.

import type { Blobs } from "#shared/blobs/blobs.ts";
import type { Database } from "#shared/database/database.ts";
import { mirrorAnchor, mirrorPage } from "#shared/database/mirror.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { decodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";

export type Pages = Readonly<{ ledger: Ledger; database: Database; blobs: Blobs }>;

export type Page = Readonly<{ messages: readonly LedgerMessage[]; cursor: number; more: boolean }>;

/** At most `limit` messages after the sequence `after`, in order. Throws `session_not_found`. */
export async function readPage(pages: Pages, session: string, after: number, limit: number): Promise<Page> {
  const { pool } = pages.database;
  const anchor = after === 0 ? undefined : await mirrorAnchor(pool, session, after);
  const mirrored = await mirrorPage(pool, session, after, limit + 1);
  const decoded = await Promise.all(mirrored.map((stored) => decodeMessage(stored, pages.blobs)));
  const whole = follows(decoded, anchor);
  const known = whole ? decoded : [];
  const tail =
    whole && mirrored.length > limit ? [] : await tailOf(pages.ledger, session, versionAt(whole, known, anchor));
  const messages = [...known, ...tail.filter(({ sequence }) => sequence > after)];
  if (messages.length === 0 && tail.length === 0 && anchor === undefined) throw notFound();
  const page = messages.slice(0, limit);
  return { messages: page, cursor: page.at(-1)?.sequence ?? after, more: messages.length > limit };
}

async function tailOf(ledger: Ledger, session: string, from: Version): Promise<LedgerMessage[]> {
  return (await ledger.read(session, from)).messages;
}

/** Where the ledger's tail begins: after the last that the mirror gave; at the start when the mirror has a hole. */
function versionAt(whole: boolean, known: readonly LedgerMessage[], anchor: StoredMessage | undefined): Version {
  const last = known.at(-1);
  if (!whole) return NEW_SESSION;
  if (last !== undefined) return { sequence: last.sequence, hash: last.hash };
  return anchor === undefined ? NEW_SESSION : { sequence: anchor.sequence, hash: sha256(anchor.bytes) };
}

/** Whether each message names the one before it; a message that was parked is not in the mirror. */
function follows(messages: readonly LedgerMessage[], anchor: StoredMessage | undefined): boolean {
  let before = anchor === undefined ? "" : sha256(anchor.bytes);
  return messages.every(({ prev, hash }) => {
    const fits = prev === before;
    before = hash;
    return fits;
  });
}

function notFound(): Refusal {
  return new Refusal("session_not_found", "There is no such session", { next: "List the sessions for their ids." });
}
