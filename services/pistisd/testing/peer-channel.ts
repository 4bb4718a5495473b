import type { RawData } from "ws";
import { z } from "zod";
import {
  Kind,
  readData,
  STREAM_WINDOW_BYTES,
  writeCreditFrame,
  writeDataFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import { type AnswerOf, answers, type Op, type RequestOf, toServer } from "#schemas/wire/message.ts";

/** What a test got on one stream. */
export class Received {
  bytes = 0;
  firstPosition: number | undefined;
  endPosition: number | undefined;
  readonly chunks: Uint8Array[] = [];
  readonly gaps: Array<{ from: number; to: number }> = [];
  keep = true;
  grants = true;
  readonly ended = Promise.withResolvers<void>();
  onBytes: (received: Received) => void = () => undefined;
  #position: number | undefined;

  take(position: number, bytes: Uint8Array): void {
    this.firstPosition ??= position;
    if (this.#position !== undefined && this.#position !== position)
      this.gaps.push({ from: this.#position, to: position });
    this.#position = position + bytes.byteLength;
    this.bytes += bytes.byteLength;
    if (this.keep) this.chunks.push(bytes.slice());
    if (bytes.byteLength === 0) {
      this.endPosition = position;
      this.ended.resolve();
    }
    this.onBytes(this);
  }

  text(): string {
    return Buffer.concat(this.chunks).toString("latin1");
  }

  /** Resolves when the bytes so far satisfy the test. */
  until(satisfied: (received: Received) => boolean): Promise<void> {
    if (satisfied(this)) return Promise.resolve();
    return new Promise((resolve) => {
      this.onBytes = () => satisfied(this) && resolve();
    });
  }
}

export class RequestFailed extends Error {
  override readonly name = "RequestFailed";
  readonly code: string;
  constructor(code: string, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

const parsers: { [O in Op]: { parse: (answer: unknown) => AnswerOf<O> } } = answers;

type Waiting = PromiseWithResolvers<unknown> & { stream: number | undefined };

const streaming = z.looseObject({ stream: z.number().optional() });
const ending = z.looseObject({ streamEnd: z.number().optional() });
const attachedEnding = z.looseObject({ result: ending.optional() });

export class PeerChannel {
  readonly number: number;
  readonly #send: (frame: Uint8Array) => void;
  readonly #waiting = new Map<number, Waiting>();
  readonly #streams = new Map<number, Received>();
  readonly #credits = new Map<number, { left: number; more: () => void }>();
  #nextId = 1;
  #nextStream = 1;
  lastId = 0;
  readonly #lost = Promise.withResolvers<undefined>();

  constructor(number: number, send: (frame: Uint8Array) => void) {
    this.number = number;
    this.#send = send;
  }

  /** Rejects with RequestFailed. The answer's shape is checked. */
  async ask<O extends Op>(request: RequestOf<O> & { op: O }): Promise<AnswerOf<O>> {
    const answer = await this.askRaw(request);
    return parsers[request.op].parse(answer);
  }

  /** Resolves to undefined when the daemon connects anew first: then this channel is none any more. */
  askUnlessLost<O extends Op>(request: RequestOf<O> & { op: O }): Promise<AnswerOf<O> | undefined> {
    return Promise.race([this.#lost.promise, this.ask<O>(request)]);
  }

  lose(): void {
    this.#lost.resolve(undefined);
  }

  askRaw(request: unknown): Promise<unknown> {
    const id = this.#nextId++;
    this.lastId = id;
    const { stream } = streaming.parse(request);
    const waiting = { ...Promise.withResolvers<unknown>(), stream };
    this.#waiting.set(id, waiting);
    this.sendMessage({ id, request });
    return waiting.promise;
  }

  sendMessage(message: unknown): void {
    this.#send(writeFrame(Kind.message, this.number, Buffer.from(JSON.stringify(message))));
  }

  brain(epoch: number): Promise<AnswerOf<"hello">> {
    return this.ask({ op: "hello", protocol: 1, role: "brain", epoch });
  }

  stream(): { stream: number; received: Received } {
    const stream = this.#nextStream++;
    const received = new Received();
    this.#streams.set(stream, received);
    return { stream, received };
  }

  grant(stream: number, bytes: number): void {
    this.#send(writeCreditFrame(this.number, stream, bytes));
  }

  /** Sends within the credit, then the end. */
  async upload(stream: number, content: Uint8Array): Promise<void> {
    const credit: { left: number; more: () => void } = { left: STREAM_WINDOW_BYTES, more: () => undefined };
    this.#credits.set(stream, credit);
    let position = 0;
    while (position < content.byteLength) {
      if (credit.left === 0) await new Promise<void>((resolve) => (credit.more = resolve));
      const bytes = content.subarray(position, position + Math.min(credit.left, 64 * 1024));
      this.sendData(stream, position, bytes);
      credit.left -= bytes.byteLength;
      position += bytes.byteLength;
    }
    this.sendData(stream, position, new Uint8Array());
  }

  sendData(stream: number, position: number, bytes: Uint8Array): void {
    this.#send(writeDataFrame(this.number, { stream, position, bytes }));
  }

  onFrame(kind: number, payload: Uint8Array): void {
    if (kind === Kind.data) this.#onData(payload);
    else if (kind === Kind.credit) this.#onCredit(payload);
    else this.#onMessage(payload);
  }

  #onData(payload: Uint8Array): void {
    const { stream, position, bytes } = readData(payload);
    const received = this.#streams.get(stream);
    received?.take(position, bytes);
    if (received?.grants && bytes.byteLength > 0) this.grant(stream, bytes.byteLength);
  }

  #onCredit(payload: Uint8Array): void {
    const view = new DataView(payload.buffer, payload.byteOffset);
    const credit = this.#credits.get(view.getUint32(0));
    if (credit === undefined) return;
    credit.left += view.getUint32(4);
    credit.more();
  }

  #onMessage(payload: Uint8Array): void {
    const message = toServer.parse(JSON.parse(Buffer.from(payload).toString()));
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ("failure" in message) {
      waiting?.reject(new RequestFailed(message.failure.code, message.failure.message));
      return;
    }
    if (waiting?.stream !== undefined) this.#endWithAnswer(waiting.stream, message.answer);
    waiting?.resolve(message.answer);
  }

  #endWithAnswer(stream: number, answer: unknown): void {
    const end = ending.parse(answer).streamEnd ?? attachedEnding.parse(answer).result?.streamEnd;
    if (end !== undefined) this.#streams.get(stream)?.take(end, new Uint8Array());
  }
}

export function bytesOf(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}
