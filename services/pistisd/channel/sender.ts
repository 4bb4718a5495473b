// The sending end of a stream: no byte leaves beyond the receiver's credit, nor into a full socket.
import {
  DATA_BYTES_MAX,
  DATA_HEADER_BYTES,
  FRAME_HEADER_BYTES,
  STREAM_WINDOW_BYTES,
  writeDataFrame,
} from "#schemas/wire/frame.ts";
import type { Outlet } from "../relay/outlet.ts";

const HEADER_BYTES = FRAME_HEADER_BYTES + DATA_HEADER_BYTES;
/** The socket copies what it sends, so all streams build their frames in one place and leave no garbage. */
const FRAME = new Uint8Array(HEADER_BYTES + DATA_BYTES_MAX);
const NO_BYTES = new Uint8Array();

export class StreamClosed extends Error {
  override readonly name = "StreamClosed";
}

export class StreamSender {
  readonly #outlet: Outlet;
  readonly #channel: number;
  readonly #stream: number;
  #credit = STREAM_WINDOW_BYTES;
  #closed = false;
  #waiting: (() => void) | undefined;
  #onClose: (() => void) | undefined;

  constructor(outlet: Outlet, channel: number, stream: number) {
    this.#outlet = outlet;
    this.#channel = channel;
    this.#stream = stream;
  }

  grant(bytes: number): void {
    this.#credit = Math.min(this.#credit + bytes, Number.MAX_SAFE_INTEGER);
    this.#wake();
  }

  /** Resolves to the number of bytes that may be sent now, at least 1. Throws StreamClosed. */
  async room(): Promise<number> {
    for (;;) {
      if (this.#closed) throw new StreamClosed(`Stream ${this.#stream} is closed`);
      if (this.#outlet.isFull()) await this.#outlet.hasRoom();
      else if (this.#credit > 0) return Math.min(this.#credit, DATA_BYTES_MAX);
      else await new Promise<void>((resolve) => (this.#waiting = resolve));
    }
  }

  /**
   * Sends what `fill` puts into its target, which has `length` bytes: not more than `room` said. Returns how
   * many those were.
   */
  send(position: number, length: number, fill: (target: Uint8Array) => number): number {
    if (this.#closed) return 0;
    const count = fill(FRAME.subarray(HEADER_BYTES, HEADER_BYTES + length));
    if (count === 0) return 0;
    FRAME.set(this.#emptyFrame(position));
    this.#credit -= count;
    this.#outlet.send(FRAME.subarray(0, HEADER_BYTES + count));
    return count;
  }

  /** Tells the receiver that no more comes. */
  end(position: number): void {
    if (this.#closed) return;
    this.#outlet.send(this.#emptyFrame(position));
    this.close();
  }

  /** The receiver is gone or asked for no more. */
  close(): void {
    // The number may be another stream's by now.
    if (this.#closed) return;
    this.#closed = true;
    this.#wake();
    this.#onClose?.();
  }

  onClose(listener: () => void): void {
    this.#onClose = listener;
  }

  #emptyFrame(position: number): Uint8Array {
    return writeDataFrame(this.#channel, { stream: this.#stream, position, bytes: NO_BYTES });
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
