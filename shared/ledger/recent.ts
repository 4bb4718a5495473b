// The newest ledger messages that a process has read, as they were parsed. Its services all get the same messages, each
// by a consumer of its own, and parsing and checking one takes longer than what most of them do about it.
import type { Blobs } from "#shared/blobs/blobs.ts";
import { decodeMessage, type StoredMessage } from "./codec.ts";
import type { LedgerMessage } from "./ledger.ts";

/** Places for messages. A newer message takes the place of an older one, never the other way. */
const MESSAGES_MAX = 512;
/** A larger message is not kept, and neither is one with its events in a blob: this bounds the memory. */
const KEPT_BYTES_MAX = 16 * 1024;

type Kept = Readonly<{ subject: string; message: LedgerMessage }>;

export type SubjectMessage = StoredMessage & Readonly<{ subject: string }>;

export class RecentMessages {
  /** Whoever writes to the ledger does it in this process, so that what is appended is known here at once. */
  readonly hearsAll: boolean;
  readonly #places: (Kept | undefined)[] = new Array(MESSAGES_MAX).fill(undefined);
  readonly #watchers = new Set<() => void>();
  #telling: NodeJS.Immediate | undefined;

  constructor({ hearsAll = false }: { hearsAll?: boolean } = {}) {
    this.hearsAll = hearsAll;
  }

  /** The message with exactly this sequence, if it is known. */
  at(sequence: number): SubjectMessage | undefined {
    const kept = this.#at(sequence);
    return kept && { subject: kept.subject, sequence, bytes: kept.message.bytes };
  }

  /**
   * Calls `listener` when there is news, until the returned function is called: after whatever is under way, because
   * who appends a message has more urgent things to do with it than who hears of it.
   */
  watch(listener: () => void): () => void {
    this.#watchers.add(listener);
    return () => void this.#watchers.delete(listener);
  }

  /** The next message after `sequence` whose subject begins so; undefined when that cannot be told from here. */
  following(sequence: number, subjectStart: string): SubjectMessage | undefined {
    // The ledger's stream has no holes, so as long as each sequence is known nothing is left out.
    for (let next = this.#at(sequence + 1); next !== undefined; next = this.#at(next.message.sequence + 1)) {
      const { subject, message } = next;
      if (subject.startsWith(subjectStart)) return { subject, sequence: message.sequence, bytes: message.bytes };
    }
    return undefined;
  }

  /** To be called when the server may have lost what it had: after that, what follows what has to be read there. */
  forget(): void {
    this.#places.fill(undefined);
  }

  /** As `decodeMessage`. What it returns is shared by all who ask, who only read it. */
  async decode(stored: SubjectMessage, blobs: Pick<Blobs, "get">): Promise<LedgerMessage> {
    const kept = this.#at(stored.sequence)?.message;
    if (kept !== undefined && Buffer.compare(kept.bytes, stored.bytes) === 0) return kept;
    let isInline = true;
    const get = (digest: string) => {
      isInline = false;
      return blobs.get(digest);
    };
    const message = await decodeMessage(stored, { get });
    if (isInline && message.bytes.byteLength <= KEPT_BYTES_MAX) this.#keep({ subject: stored.subject, message });
    return message;
  }

  /** What this process appended was checked before it was written, and need not be parsed when it comes back. */
  keepAppended(subject: string, message: LedgerMessage): void {
    const events = JSON.stringify(message.events);
    // A copy, so that what the appender does with its events later does not matter.
    if (events.length <= KEPT_BYTES_MAX) this.#keep({ subject, message: { ...message, events: JSON.parse(events) } });
  }

  #at(sequence: number): Kept | undefined {
    const kept = this.#places[sequence % MESSAGES_MAX];
    return kept?.message.sequence === sequence ? kept : undefined;
  }

  #keep(kept: Kept): void {
    const place = kept.message.sequence % MESSAGES_MAX;
    if ((this.#places[place]?.message.sequence ?? 0) > kept.message.sequence) return;
    this.#places[place] = kept;
    if (this.#watchers.size > 0) this.#telling ??= setImmediate(() => this.#tell());
  }

  #tell(): void {
    this.#telling = undefined;
    for (const listener of [...this.#watchers]) listener();
  }
}
