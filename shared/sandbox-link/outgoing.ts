// Bytes that go to a sandbox as one stream, as far as its credit allows. Credit alone is the sandbox's own word: one that
// grants what it never took would have the whole content wait in this process, so no more than a window ever does.
import { DATA_BYTES_MAX, STREAM_WINDOW_BYTES } from "#schemas/wire/frame.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { SandboxBreach } from "./breach.ts";

export type Content = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
/** `left` is called when the bytes have left this process. */
export type Send = (position: number, bytes: Uint8Array, left?: () => void) => void;

const NOTHING = new Uint8Array(0);

export class Outgoing {
  readonly size: number;
  readonly #content: Content;
  #credit = STREAM_WINDOW_BYTES;
  #waitingBytes = 0;
  #stopped = false;
  #wake: (() => void) | undefined;
  #sentAll = false;

  constructor(content: Content, size: number) {
    this.#content = content;
    this.size = size;
  }

  /** Whether it is this side that is slow. */
  get isSending(): boolean {
    return !this.#stopped && !this.#sentAll && this.#hasRoom;
  }

  /** Throws SandboxBreach for credit that no receiver grants who took what it grants it for. */
  credit(bytes: number): void {
    if (bytes === 0 || this.#credit + bytes > STREAM_WINDOW_BYTES) {
      throw new SandboxBreach("A stream was granted more than was taken of it, or nothing");
    }
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
        if (last.byteLength + position + bytes.byteLength > this.size) throw wrongSize(this.size, "more");
        // What would complete the file waits until it is clear that nothing follows.
        if (position + bytes.byteLength === this.size) {
          last = bytes;
          continue;
        }
        await this.#sendPieces(send, position, bytes);
        if (this.#stopped) return;
        position += bytes.byteLength;
      }
      await this.#sendPieces(send, position, last);
      position += last.byteLength;
      if (position < this.size) throw wrongSize(this.size, `only ${position}`);
    } finally {
      if (!this.#stopped) send(position, NOTHING);
      this.#sentAll = true;
    }
  }

  async #sendPieces(send: Send, position: number, bytes: Uint8Array): Promise<void> {
    for (let offset = 0; offset < bytes.byteLength; ) {
      while (!this.#hasRoom && !this.#stopped) await this.#moreRoom();
      if (this.#stopped) return;
      const piece = bytes.subarray(offset, offset + Math.min(DATA_BYTES_MAX, this.#credit));
      this.#credit -= piece.byteLength;
      this.#waitingBytes += piece.byteLength;
      send(position + offset, piece, () => this.#left(piece.byteLength));
      offset += piece.byteLength;
    }
  }

  get #hasRoom(): boolean {
    return this.#credit > 0 && this.#waitingBytes < STREAM_WINDOW_BYTES;
  }

  #left(bytes: number): void {
    this.#waitingBytes -= bytes;
    this.#wake?.();
  }

  async #moreRoom(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }
}

function wrongSize(size: number, got: string): Refusal {
  return new Refusal("content_size_mismatch", `A file of ${size} bytes was announced, the content has ${got}`);
}
