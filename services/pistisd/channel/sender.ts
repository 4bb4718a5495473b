// The sending end of a stream: no byte leaves beyond the receiver's credit, nor into a full socket.
import { DATA_BYTES_MAX, STREAM_WINDOW_BYTES, writeDataFrame } from "#schemas/wire/frame.ts";
import type { Outlet } from "../relay/outlet.ts";

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

  /** Not more than `room` said. */
  send(position: number, bytes: Uint8Array): void {
    if (this.#closed || bytes.byteLength === 0) return;
    this.#credit -= bytes.byteLength;
    this.#outlet.send(writeDataFrame(this.#channel, { stream: this.#stream, position, bytes }));
  }

  /** Tells the receiver that no more comes. */
  end(position: number): void {
    if (this.#closed) return;
    this.#outlet.send(writeDataFrame(this.#channel, { stream: this.#stream, position, bytes: new Uint8Array() }));
    this.close();
  }

  /** The receiver is gone or asked for no more. */
  close(): void {
    this.#closed = true;
    this.#wake();
    this.#onClose?.();
  }

  onClose(listener: () => void): void {
    this.#onClose = listener;
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
