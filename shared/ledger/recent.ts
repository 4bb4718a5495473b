// The newest ledger messages that a process has read, as they were parsed. Its services all get the same messages, each
// by a consumer of its own, and parsing and checking one takes longer than what most of them do about it.
import type { Blobs } from "#shared/blobs/blobs.ts";
import { decodeMessage, type StoredMessage } from "./codec.ts";
import type { LedgerMessage } from "./ledger.ts";

/** Places for messages. A newer message takes the place of an older one, never the other way. */
const MESSAGES_MAX = 512;
/** A larger message is not kept, and neither is one with its events in a blob: this bounds the memory. */
const KEPT_BYTES_MAX = 16 * 1024;

export class RecentMessages {
  readonly #places: (LedgerMessage | undefined)[] = new Array(MESSAGES_MAX).fill(undefined);

  /** As `decodeMessage`. What it returns is shared by all who ask, who only read it. */
  async decode(stored: StoredMessage, blobs: Pick<Blobs, "get">): Promise<LedgerMessage> {
    const place = stored.sequence % MESSAGES_MAX;
    const kept = this.#places[place];
    if (kept?.sequence === stored.sequence && Buffer.compare(kept.bytes, stored.bytes) === 0) return kept;
    let isInline = true;
    const get = (digest: string) => {
      isInline = false;
      return blobs.get(digest);
    };
    const message = await decodeMessage(stored, { get });
    const isNewest = (this.#places[place]?.sequence ?? 0) <= message.sequence;
    if (isInline && isNewest && message.bytes.byteLength <= KEPT_BYTES_MAX) this.#places[place] = message;
    return message;
  }
}
