// Bytes that go to a sandbox as one stream, as far as its credit allows.
import { DATA_BYTES_MAX, STREAM_WINDOW_BYTES } from "#schemas/wire/frame.ts";
import { Refusal } from "#shared/errors/errors.ts";

export type Content = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
type Send = (position: number, bytes: Uint8Array) => void;

const NOTHING = new Uint8Array(0);

export class Outgoing {
  readonly #content: Content;
  readonly #size: number;
  #credit = STREAM_WINDOW_BYTES;
  #stopped = false;
  #wake: (() => void) | undefined;
  #sentAll = false;

  constructor(content: Content, size: number) {
    this.#content = content;
    this.#size = size;
  }

  /** Whether it is this side that is slow. */
  get isSending(): boolean {
    return !this.#stopped && !this.#sentAll && this.#credit > 0;
  }

  credit(bytes: number): void {
    this.#credit += bytes;
    this.#wake?.();
  }

  /** The rest is not wanted, or cannot be sent. */
  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  /**
   * Sends everything and the end of the stream. An end before `size` bytes makes pistisd drop the file, so it
   * is also sent when the content fails. Throws what the content throws, Refusal `content_size_mismatch`.
   */
  async run(send: Send): Promise<void> {
    let position = 0;
    let last: Uint8Array = NOTHING;
    try {
      for await (const bytes of this.#content) {
        if (last.byteLength + position + bytes.byteLength > this.#size) throw wrongSize(this.#size, "more");
        // What would complete the file waits until it is clear that nothing follows.
        if (position + bytes.byteLength === this.#size) {
          last = bytes;
          continue;
        }
        await this.#sendPieces(send, position, bytes);
        if (this.#stopped) return;
        position += bytes.byteLength;
      }
      await this.#sendPieces(send, position, last);
      position += last.byteLength;
      if (position < this.#size) throw wrongSize(this.#size, `only ${position}`);
    } finally {
      if (!this.#stopped) send(position, NOTHING);
      this.#sentAll = true;
    }
  }

  async #sendPieces(send: Send, position: number, bytes: Uint8Array): Promise<void> {
    for (let offset = 0; offset < bytes.byteLength; ) {
      while (this.#credit === 0 && !this.#stopped) await this.#moreCredit();
      if (this.#stopped) return;
      const end = Math.min(bytes.byteLength, offset + Math.min(DATA_BYTES_MAX, this.#credit));
      send(position + offset, bytes.subarray(offset, end));
      this.#credit -= end - offset;
      offset = end;
    }
  }

  async #moreCredit(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }
}

function wrongSize(size: number, got: string): Refusal {
  return new Refusal("content_size_mismatch", `A file of ${size} bytes was announced, the content has ${got}`);
}
