// The whole output of one command, by position. Its start is kept in a file up to a limit; what comes after
// is counted and its end is kept in memory, so that neither memory nor disk grows with the output.
import { closeSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES } from "../limits.ts";

type Limits = Readonly<{ headBytes: number; tailBytes: number }>;

const DEFAULT_LIMITS: Limits = { headBytes: OUTPUT_HEAD_BYTES, tailBytes: OUTPUT_TAIL_BYTES };

export class Spool {
  readonly path: string;
  readonly #limits: Limits;
  #file: number | undefined;
  #total = 0;
  #kept = 0;
  #ring: Uint8Array | undefined;
  #headIsFull = false;
  #waiting: Array<() => void> = [];

  constructor(path: string, limits: Limits = DEFAULT_LIMITS) {
    this.path = path;
    this.#limits = limits;
  }

  /** Bytes ever written. */
  get totalBytes(): number {
    return this.#total;
  }

  /** Bytes from the start that can be read. */
  get keptBytes(): number {
    return this.#kept;
  }

  append(bytes: Uint8Array): void {
    const toHead = this.#headIsFull ? 0 : this.#writeHead(bytes);
    if (toHead < bytes.byteLength) this.#writeTail(bytes.subarray(toHead), this.#total + toHead);
    this.#total += bytes.byteLength;
    this.#wake();
  }

  /** Up to `length` bytes at `position`; none when they are not kept (any more) or not written yet. */
  read(position: number, length: number): Uint8Array {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.#total - position)));
    return bytes.subarray(0, this.readInto(bytes, position));
  }

  /** As `read`, into the caller's memory. Returns the number of bytes. */
  readInto(target: Uint8Array, position: number): number {
    if (position < this.#kept) return this.#readHead(target.subarray(0, this.#kept - position), position);
    if (position < this.oldestTail()) return 0;
    return this.#readTail(target.subarray(0, this.#total - position), position);
  }

  /** Where reading can go on after a position that is not kept. */
  oldestTail(): number {
    return Math.max(this.#kept, this.#total - (this.#ring?.byteLength ?? 0));
  }

  /** Resolves at the next append, or when `wake` is called. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  wake(): void {
    this.#wake();
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #writeHead(bytes: Uint8Array): number {
    const wanted = Math.min(bytes.byteLength, this.#limits.headBytes - this.#kept);
    let written = 0;
    try {
      this.#file ??= openSync(this.path, "w+", 0o600);
      while (written < wanted) {
        written += writeSync(this.#file, bytes, written, wanted - written, this.#kept + written);
      }
    } catch (error) {
      // A full or broken disk ends the keeping, not the command.
      if (!(error instanceof Error && "code" in error)) throw error;
    }
    this.#kept += written;
    if (written < bytes.byteLength) this.#headIsFull = true;
    return written;
  }

  #writeTail(bytes: Uint8Array, position: number): void {
    this.#ring ??= new Uint8Array(this.#limits.tailBytes);
    const size = this.#ring.byteLength;
    const last = bytes.subarray(Math.max(0, bytes.byteLength - size));
    const start = (position + bytes.byteLength - last.byteLength) % size;
    const first = last.subarray(0, size - start);
    this.#ring.set(first, start);
    this.#ring.set(last.subarray(first.byteLength), 0);
  }

  #readHead(target: Uint8Array, position: number): number {
    if (this.#file !== undefined) return readSync(this.#file, target, 0, target.byteLength, position);
    const file = openOrNothing(this.path);
    if (file === undefined) return 0;
    try {
      return readSync(file, target, 0, target.byteLength, position);
    } finally {
      closeSync(file);
    }
  }

  #readTail(target: Uint8Array, position: number): number {
    const ring = this.#ring;
    if (ring === undefined) return 0;
    const start = position % ring.byteLength;
    const first = ring.subarray(start, Math.min(ring.byteLength, start + target.byteLength));
    target.set(first, 0);
    target.set(ring.subarray(0, target.byteLength - first.byteLength), first.byteLength);
    return target.byteLength;
  }

  #wake(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** The kept start of a command that ended under an earlier start of the daemon. */
  static reopen(path: string, totalBytes: number): Spool {
    const spool = new Spool(path);
    spool.#total = totalBytes;
    spool.#kept = totalBytes === 0 ? 0 : Math.min(sizeOrZero(path), totalBytes);
    spool.#headIsFull = true;
    return spool;
  }
}

/** Old output is dropped when the space is needed. */
function openOrNothing(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function sizeOrZero(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");
}
