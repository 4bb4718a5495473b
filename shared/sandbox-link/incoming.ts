// Bytes that come from a sandbox as one stream. The reader grants credit as it takes them, so a sandbox
// never has more than one window under way, and one that sends more is cut off. Small pieces are copied
// together, so that many tiny frames do not weigh more than their bytes.
import { STREAM_WINDOW_BYTES } from "#schemas/wire/frame.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { SandboxBreach } from "./breach.ts";
import type { OutputChunk } from "./link.ts";

const SMALL_BYTES_MAX = 8 * 1024;
const BLOCK_BYTES = 32 * 1024;
/** Far more than of a whole window without gaps; an honest output has few of those. */
const PIECES_MAX = 10_000;
const GRANT_BYTES_MIN = STREAM_WINDOW_BYTES / 4;

/** `room`: where its bytes were copied to, with or without space for more; undefined when they stand where they came. */
type Piece = { position: number; bytes: Uint8Array; room: Uint8Array | undefined };

type Options = Readonly<{
  /** Position of the first byte. */
  start: number;
  /** Position after the last byte that was asked for. */
  endMax?: number;
  /** Of an output beyond what pistisd keeps, a slow reader misses some: then positions may jump forward. */
  mayJump: boolean;
}>;

export class Incoming {
  readonly #options: Options;
  readonly #queue: Piece[] = [];
  #arrived: number;
  #taken: number;
  #allowance = 0;
  #owed = 0;
  #grant: (bytes: number) => void = () => undefined;
  #status: "open" | "ended" | "failed" = "open";
  #error: Error | undefined;
  #wake: (() => void) | undefined;
  #firstJump: number | undefined;
  #end: number | undefined;
  #endIsKnown = false;

  constructor(options: Options) {
    this.#options = options;
    this.#arrived = options.start;
    this.#taken = options.start;
    this.#end = options.endMax;
  }

  /** How much was asked for; 0 for an output, of which nobody knows. */
  get bytesMax(): number {
    const { start, endMax = start } = this.#options;
    return endMax - start;
  }

  /** Where the stream has to go on after a reconnect: what was not taken yet is sent again. */
  get position(): number {
    return this.#taken;
  }

  get allowance(): number {
    return this.#allowance;
  }

  get ended(): boolean {
    return this.#status !== "open";
  }

  /** The position of the first byte that was left out, if one was. */
  get firstJump(): number | undefined {
    return this.#firstJump;
  }

  get arrivedBytes(): number {
    return this.#arrived - this.#options.start;
  }

  /** A connection takes the stream up at `position`. `grant` tells the sender of more credit. */
  attach(grant: (bytes: number) => void): void {
    this.#queue.length = 0;
    this.#arrived = this.#taken;
    this.#allowance = STREAM_WINDOW_BYTES;
    this.#owed = 0;
    this.#grant = grant;
  }

  detach(): void {
    this.#grant = () => undefined;
  }

  /** Throws SandboxBreach for bytes out of place, beyond the credit or beyond what was asked for. */
  receive(position: number, bytes: Uint8Array): void {
    if (this.#status !== "open") throw new SandboxBreach("A stream went on after its end");
    const length = bytes.byteLength;
    if (length === 0) {
      if (this.#options.mayJump && position > this.#arrived) this.#firstJump ??= this.#arrived;
      this.finish();
      return;
    }
    this.#place(position);
    if (length > this.#allowance) throw new SandboxBreach("A stream sent more than its credit");
    if (position + length > (this.#end ?? Number.POSITIVE_INFINITY)) {
      throw new SandboxBreach("A stream sent more than was asked for");
    }
    this.#allowance -= length;
    this.#arrived = position + length;
    this.#keep(position, bytes);
    this.#notify();
  }

  /** The next bytes; undefined at the end. Throws what the stream failed with. */
  async take(): Promise<OutputChunk | undefined> {
    this.#payCredit();
    while (this.#queue.length === 0 && this.#status === "open") {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const piece = this.#queue.shift();
    if (piece !== undefined) return this.#hand(piece);
    if (this.#error !== undefined) throw this.#error;
    return undefined;
  }

  /** Where the stream has to end, once that is known. Bytes beyond it are a breach, an earlier end fails the stream. */
  expectEnd(end: number): void {
    if (this.#arrived > end) throw new SandboxBreach("A stream sent more than it announced");
    this.#end = end;
    this.#endIsKnown = true;
    if (this.#status === "ended") this.#checkEnd();
  }

  /** There is nothing more to come. */
  finish(): void {
    if (this.#status !== "open") return;
    this.#status = "ended";
    this.#checkEnd();
    this.#notify();
  }

  fail(error: Error): void {
    if (this.#status === "failed") return;
    this.#status = "failed";
    this.#error = error;
    this.#queue.length = 0;
    this.#notify();
  }

  #checkEnd(): void {
    if (!this.#endIsKnown || this.#arrived === this.#end) return;
    const text = `The stream ended at ${this.#arrived}, not at ${this.#end}`;
    this.fail(new Retryable("changed_while_read", text, { retryAfterMs: 1_000, next: "Read it again." }));
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #place(position: number): void {
    if (position === this.#arrived) return;
    if (position < this.#arrived) throw new SandboxBreach("A stream repeated a position");
    if (!this.#options.mayJump) throw new SandboxBreach("A stream left out a position");
    this.#firstJump ??= this.#arrived;
  }

  #keep(position: number, bytes: Uint8Array): void {
    const last = this.#queue.at(-1);
    if (last?.room !== undefined && canJoin(last, position, bytes)) {
      join(last, last.room, bytes);
      return;
    }
    if (this.#queue.length >= PIECES_MAX) throw new SandboxBreach("A stream left out parts without end");
    if (bytes.byteLength >= SMALL_BYTES_MAX || this.#wake !== undefined) {
      this.#queue.push({ position, bytes, room: undefined });
      return;
    }
    // Of a Buffer `slice` would be no copy.
    const room = new Uint8Array(bytes);
    this.#queue.push({ position, bytes: room, room });
  }

  /** Whoever comes for more is done with what was handed out before. */
  #payCredit(): void {
    if (this.#owed < GRANT_BYTES_MIN || this.#status !== "open") return;
    this.#allowance += this.#owed;
    this.#grant(this.#owed);
    this.#owed = 0;
  }

  #hand({ position, bytes }: Piece): OutputChunk {
    this.#taken = position + bytes.byteLength;
    this.#owed += bytes.byteLength;
    return { position, bytes };
  }
}

function canJoin(last: Piece, position: number, bytes: Uint8Array): boolean {
  if (last.position + last.bytes.byteLength !== position) return false;
  return last.bytes.byteLength + bytes.byteLength <= BLOCK_BYTES;
}

/** The room grows with what is in it: a few bytes between gaps would else take a whole block each time. */
function join(last: Piece, room: Uint8Array, bytes: Uint8Array): void {
  const [before, after] = [last.bytes.byteLength, last.bytes.byteLength + bytes.byteLength];
  const target = after > room.byteLength ? new Uint8Array(Math.min(BLOCK_BYTES, after * 2)) : room;
  if (target !== room) target.set(last.bytes);
  target.set(bytes, before);
  last.room = target;
  last.bytes = target.subarray(0, after);
}
