// The receiving end of a stream: bytes in order, and credit granted only for what was taken out.

import { type DataPayload, STREAM_WINDOW_BYTES, writeCreditFrame } from "#schemas/wire/frame.ts";
import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Outlet } from "../relay/outlet.ts";
import { StreamClosed } from "./sender.ts";

const CREDIT_STEP_BYTES = STREAM_WINDOW_BYTES / 4;

export class StreamReceiver {
  readonly #outlet: Outlet;
  readonly #channel: number;
  readonly #stream: number;
  #queue: Uint8Array[] = [];
  #position = 0;
  #window = STREAM_WINDOW_BYTES;
  #taken = 0;
  #ended = false;
  #failure: Error | undefined;
  #waiting: (() => void) | undefined;
  #onClose: (() => void) | undefined;

  constructor(outlet: Outlet, channel: number, stream: number) {
    this.#outlet = outlet;
    this.#channel = channel;
    this.#stream = stream;
  }

  push({ position, bytes }: DataPayload): void {
    if (this.#ended || this.#failure !== undefined) return;
    const broken = this.#brokenRule(position, bytes.byteLength);
    if (broken !== undefined) {
      this.fail(new Refusal(WireCode.badRequest, broken));
      return;
    }
    this.#ended = bytes.byteLength === 0;
    if (this.#ended) this.#onClose?.();
    if (!this.#ended) this.#queue.push(bytes);
    this.#position += bytes.byteLength;
    this.#window -= bytes.byteLength;
    this.#wake();
  }

  /** The sender is gone, or broke the rules. */
  fail(error: Error = new StreamClosed(`Stream ${this.#stream} is closed`)): void {
    this.#failure ??= error;
    this.#queue = [];
    this.#wake();
    this.#onClose?.();
  }

  onClose(listener: () => void): void {
    this.#onClose = listener;
  }

  async *bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const next = this.#queue.shift();
      if (next !== undefined) {
        yield next;
        this.#grant(next.byteLength);
      } else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#waiting = resolve));
    }
  }

  #brokenRule(position: number, size: number): string | undefined {
    if (position !== this.#position) return "A stream has a gap";
    return size > this.#window ? "A stream went beyond its credit" : undefined;
  }

  #grant(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken < CREDIT_STEP_BYTES || this.#ended) return;
    this.#outlet.send(writeCreditFrame(this.#channel, this.#stream, this.#taken));
    this.#window += this.#taken;
    this.#taken = 0;
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
