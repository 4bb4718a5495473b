// One command's output on its way to people: whole characters, at a rate that a reader can follow. What goes over
// the allowance is counted and skipped, never queued; whoever wants it reads the range from pistisd.
import type { OutputChunk } from "#shared/sandbox-link/link.ts";

/** A burst that is passed on at once, and what is added to it every second. */
export const LIVE_BURST_BYTES = 256 * 1024;
export const LIVE_BYTES_PER_SECOND = 64 * 1024;
const MESSAGE_BYTES_MAX = 32 * 1024;

export type LiveOutput = Readonly<{ position: number; text: string; skippedBytes: number }>;

export class OutputStream {
  readonly #publish: (output: LiveOutput) => void;
  readonly #now: () => number;
  #decoder = new TextDecoder("utf-8");
  #allowance = LIVE_BURST_BYTES;
  #refilledAt: number;
  /** Where the next character starts: bytes of a character that is not whole yet are held by the decoder. */
  #position = 0;
  #end = 0;
  #skipped = 0;

  /** `now`: milliseconds, monotonic. */
  constructor(publish: (output: LiveOutput) => void, now: () => number) {
    this.#publish = publish;
    this.#now = now;
    this.#refilledAt = now();
  }

  take({ position, bytes }: OutputChunk): void {
    if (position !== this.#end) this.#skip(position - this.#end);
    this.#refill();
    const shown = Math.min(bytes.byteLength, Math.floor(this.#allowance));
    this.#allowance -= shown;
    for (let from = 0; from < shown; from += MESSAGE_BYTES_MAX) {
      this.#show(bytes.subarray(from, Math.min(shown, from + MESSAGE_BYTES_MAX)));
    }
    if (shown < bytes.byteLength) this.#skip(bytes.byteLength - shown);
  }

  /** The command is over: what was skipped last is said. */
  end(): void {
    const text = this.#decoder.decode();
    if (text !== "" || this.#skipped > 0) this.#send(text, this.#end);
  }

  #show(bytes: Uint8Array): void {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#end += bytes.byteLength;
    if (text !== "") this.#send(text, this.#end - heldBytes(bytes));
  }

  #send(text: string, nextPosition: number): void {
    this.#publish({ position: this.#position, text, skippedBytes: this.#skipped });
    this.#skipped = 0;
    this.#position = nextPosition;
  }

  #skip(bytes: number): void {
    const held = this.#decoder.decode();
    this.#decoder = new TextDecoder("utf-8");
    if (held !== "") this.#send(held, this.#end);
    this.#end += bytes;
    this.#skipped += bytes;
    this.#position = this.#end;
  }

  #refill(): void {
    const now = this.#now();
    this.#allowance = Math.min(
      LIVE_BURST_BYTES,
      this.#allowance + ((now - this.#refilledAt) / 1_000) * LIVE_BYTES_PER_SECOND,
    );
    this.#refilledAt = now;
  }
}

/** How many bytes at the end belong to a character that is not whole yet. */
function heldBytes(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.byteLength); back++) {
    const byte = bytes[bytes.byteLength - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0;
  }
  return 0;
}
