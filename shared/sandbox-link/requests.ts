// The requests of one link that are not settled yet, and their streams. Each is sent when the sandbox is
// there, sent again in its own way after a reconnect, and given up when the sandbox stays away too long.
import type { z } from "zod";
import {
  FRAME_BYTES_MAX,
  type Frame,
  Kind,
  readCredit,
  readData,
  writeCreditFrame,
  writeDataFrame,
  writeFrame,
} from "#schemas/wire/frame.ts";
import { type failure, toServer, WireCode, type WireRequest } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { SandboxBreach } from "./breach.ts";
import type { Boot } from "./connection.ts";
import type { Incoming } from "./incoming.ts";
import type { LinkLimits } from "./limits.ts";
import { SandboxLost } from "./link.ts";
import type { Outgoing, Send } from "./outgoing.ts";
import { Patience, type Times } from "./patience.ts";

type WireFailure = z.output<typeof failure>;

/** One request as its caller sees it, over any number of connections. */
export type Operation = Readonly<{
  /** What to send now. `before` is the start of pistisd that it was sent to last; undefined: it never left. */
  request: (stream: number, before: Boot | undefined, now: Boot) => WireRequest | Error;
  /** Throws (anything) when the answer is not what it should be. */
  answered: (answer: unknown) => void;
  failed: (failure: WireFailure) => void;
  /** The end of waiting. `sent` says whether the request may have arrived. */
  lost: (error: Error, sent: boolean) => void;
  incoming?: Incoming;
  outgoing?: Outgoing;
  /** Called whenever the outgoing stream is to begin. */
  begin?: (outgoing: Outgoing, send: Send) => void;
  /** It changes something in the sandbox. */
  hasEffect?: boolean;
  /** Milliseconds from sending to the answer that the request itself needs, beyond what any answer may take. */
  takesMs?: number | undefined;
}>;

export type Entry = {
  readonly operation: Operation;
  id: number;
  stream: number | undefined;
  sentTo: Boot | undefined;
  answered: boolean;
  readonly patience: Patience;
};

type Wire = Readonly<{ send: (frame: Uint8Array, left?: () => void) => void; boot: () => Boot | undefined }>;

type Terms = Readonly<{
  /** How long a request waits for a sandbox that went away, milliseconds. */
  reattachMs: number;
  /** The start of pistisd that may be sent what has an effect; undefined: whichever. */
  effectsOnlyTo: string | undefined;
}>;

export class Requests {
  readonly #wire: Wire;
  readonly #limits: LinkLimits;
  readonly #terms: Terms;
  readonly #times: Times;
  readonly #entries = new Set<Entry>();
  readonly #byId = new Map<number, Entry>();
  readonly #byStream = new Map<number, Entry>();
  #lastId = 0;
  #lastStream = 0;
  #strayAllowance: number;

  constructor(wire: Wire, limits: LinkLimits, terms: Terms) {
    this.#wire = wire;
    this.#limits = limits;
    this.#terms = terms;
    this.#times = { ...limits, reattachMs: terms.reattachMs };
    this.#strayAllowance = limits.strayFramesMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  start(operation: Operation): Entry {
    if (this.#entries.size >= this.#limits.requestsMax) {
      throw new Refusal("link_busy", `${this.#limits.requestsMax} requests to this sandbox are not answered yet`);
    }
    const patience = new Patience(operation, this.#times, (error) => this.#lose(entry, error));
    const entry: Entry = { operation, id: 0, stream: undefined, sentTo: undefined, answered: false, patience };
    this.#entries.add(entry);
    const boot = this.#wire.boot();
    if (boot === undefined) patience.away();
    else this.#dispatch(entry, boot);
    return entry;
  }

  /** Its caller does not want it any more. Only for what has no effect in the sandbox. */
  cancel(entry: Entry): void {
    if (!this.#entries.has(entry)) return;
    if (this.#byId.has(entry.id)) this.#wire.send(message({ cancel: entry.id }));
    this.settle(entry);
  }

  settle(entry: Entry): void {
    this.#entries.delete(entry);
    this.#unbind(entry);
    entry.patience.over();
  }

  /** The sandbox is there: everything that waits is sent. */
  ready(boot: Boot): void {
    this.#strayAllowance = this.#limits.strayFramesMax;
    for (const entry of [...this.#entries]) this.#dispatch(entry, boot);
  }

  /** The sandbox is away: everything waits, each at most `reattachMs`. */
  disconnected(): void {
    for (const entry of this.#entries) {
      this.#unbind(entry);
      entry.patience.away();
    }
  }

  failAll(error: Error): void {
    for (const entry of [...this.#entries]) this.#lose(entry, error);
  }

  /** Throws SandboxBreach for what no honest sandbox sends. */
  receive(frame: Frame): void {
    if (frame.kind === Kind.data) this.#data(frame.payload);
    else if (frame.kind === Kind.message) this.#message(frame.payload);
    else if (frame.kind === Kind.credit) this.#credit(frame.payload);
    else throw new SandboxBreach(`A frame of kind ${frame.kind} came`);
  }

  #lose(entry: Entry, error: Error): void {
    this.settle(entry);
    entry.operation.outgoing?.stop();
    entry.operation.lost(error, entry.sentTo !== undefined);
  }

  #dispatch(entry: Entry, boot: Boot): void {
    const { operation } = entry;
    const isFirst = entry.sentTo === undefined;
    const usesStream =
      operation.incoming === undefined ? operation.outgoing !== undefined && isFirst : !operation.incoming.ended;
    const stream = this.#nextStream();
    const request = this.#strangerTo(entry, boot) ?? operation.request(stream, entry.sentTo, boot);
    if (request instanceof Error) {
      this.#lose(entry, request);
      return;
    }
    entry.id = this.nextId();
    const frame = message({ id: entry.id, request });
    if (frame.byteLength > FRAME_BYTES_MAX) {
      this.settle(entry);
      operation.failed(tooLarge(frame.byteLength));
      return;
    }
    entry.answered = false;
    entry.sentTo = boot;
    this.#byId.set(entry.id, entry);
    if (usesStream) this.#bind(entry, stream);
    this.#wire.send(frame);
    entry.patience.sent();
    if (isFirst) this.#begin(operation, stream);
  }

  /** Whoever asked does not know of this start yet, and would be told by the ledger that the one it meant is over. */
  #strangerTo({ operation, sentTo }: Entry, { bootId }: Boot): SandboxLost | undefined {
    const { effectsOnlyTo } = this.#terms;
    if (operation.hasEffect !== true || sentTo !== undefined) return undefined;
    if (effectsOnlyTo === undefined || effectsOnlyTo === bootId) return undefined;
    return new SandboxLost("restarted", "The sandbox was started again before the request left");
  }

  #begin({ outgoing, begin }: Operation, stream: number): void {
    if (outgoing === undefined) return;
    const send: Send = (position, bytes, left) => {
      if (this.#byStream.has(stream)) this.#wire.send(writeDataFrame(0, { stream, position, bytes }), left);
    };
    begin?.(outgoing, send);
  }

  #nextStream(): number {
    this.#lastStream = this.#lastStream >= 0xffffffff ? 1 : this.#lastStream + 1;
    return this.#lastStream;
  }

  #bind(entry: Entry, stream: number): void {
    entry.stream = stream;
    this.#byStream.set(stream, entry);
    entry.operation.incoming?.attach((bytes) => this.#wire.send(writeCreditFrame(0, stream, bytes)));
  }

  #unbind(entry: Entry): void {
    this.#byId.delete(entry.id);
    if (entry.stream === undefined) return;
    this.#byStream.delete(entry.stream);
    entry.stream = undefined;
    entry.operation.outgoing?.stop();
    const { incoming } = entry.operation;
    incoming?.detach();
    // What the sandbox may still send on it is thrown away.
    if (incoming !== undefined && !incoming.ended) this.#strayAllowance += incoming.allowance;
  }

  #data(payload: Uint8Array): void {
    const { stream, position, bytes } = readData(payload);
    const entry = this.#byStream.get(stream);
    if (entry?.operation.incoming === undefined) {
      this.#stray(Math.max(1, bytes.byteLength), stream <= this.#lastStream);
      return;
    }
    entry.operation.incoming.receive(position, bytes);
    if (entry.answered && entry.operation.incoming.ended) this.settle(entry);
    else entry.patience.heard();
  }

  #credit(payload: Uint8Array): void {
    const { stream, bytes } = readCredit(payload);
    const entry = this.#byStream.get(stream);
    if (entry?.operation.outgoing === undefined) {
      this.#stray(1, stream <= this.#lastStream);
      return;
    }
    entry.operation.outgoing.credit(bytes);
    entry.patience.heard();
  }

  #message(payload: Uint8Array): void {
    const parsed = toServer.parse(
      JSON.parse(Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength).toString()),
    );
    const entry = this.#byId.get(parsed.id);
    if (entry === undefined || entry.answered) {
      this.#stray(1, parsed.id <= this.#lastId);
      return;
    }
    entry.operation.outgoing?.stop();
    if ("failure" in parsed) {
      this.settle(entry);
      entry.operation.failed(parsed.failure);
      return;
    }
    entry.answered = true;
    entry.operation.answered(parsed.answer);
    if (entry.operation.incoming?.ended ?? true) this.settle(entry);
    else entry.patience.answered();
  }

  #stray(weight: number, plausible: boolean): void {
    this.#strayAllowance -= weight;
    if (!plausible || this.#strayAllowance < 0) throw new SandboxBreach("Frames came that belong to nothing");
  }
}

const tooLarge = (bytes: number): WireFailure => ({
  code: WireCode.tooLarge,
  message: `A request of ${bytes} bytes is larger than a frame may be (${FRAME_BYTES_MAX})`,
  next: "Write the large part into a file first.",
});

function message(content: { id: number; request: WireRequest } | { cancel: number }): Uint8Array {
  return writeFrame(Kind.message, 0, Buffer.from(JSON.stringify(content)));
}
