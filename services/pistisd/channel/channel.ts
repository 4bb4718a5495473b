// One server-side peer: its hello, its requests and their streams. Whatever the peer sends, the daemon stays up:
// a bad request is answered with a failure, and what cannot even be answered is dropped and logged.
import { z } from "zod";
import { FRAME_BYTES_MAX, Kind, readCredit, readData, writeFrame } from "#schemas/wire/frame.ts";
import { PROTOCOL_VERSION, type RequestOf, toSandbox, WireCode, type WireRequest } from "#schemas/wire/message.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { isDiskFull } from "../commands/spool.ts";
import { diskFull } from "../files/workspace.ts";
import { REQUESTS_MAX } from "../limits.ts";
import type { Outlet } from "../relay/outlet.ts";
import type { EpochFence } from "./epoch-fence.ts";
import { type Operations, perform, type RequestContext } from "./operation.ts";
import { StreamReceiver } from "./receiver.ts";
import { StreamClosed, StreamSender } from "./sender.ts";

export type ChannelContext = Readonly<{
  outlet: Outlet;
  operations: Operations;
  fence: EpochFence;
  bootId: string;
  version: string;
  log: Log;
}>;

type Greeted = { role: "service" } | { role: "brain"; epoch: number };
type Pending = { id: number; withdraw: AbortController; effect: boolean };

const answerable = z.object({ id: z.number().int().positive() });
/** These have an effect of their own: they go on whoever listens, and cannot be withdrawn. */
const WITH_EFFECT = new Set<WireRequest["op"]>(["exec", "stop", "signal", "fileEdit", "fileWrite"]);

export class Channel {
  readonly #number: number;
  readonly #context: ChannelContext;
  readonly #pending = new Map<number, Pending>();
  readonly #senders = new Map<number, StreamSender>();
  readonly #receivers = new Map<number, StreamReceiver>();
  #greeted: Greeted | undefined;
  #isClosed = false;

  constructor(number: number, context: ChannelContext) {
    this.#number = number;
    this.#context = context;
  }

  onMessage(payload: Uint8Array): void {
    const json = parseJson(payload);
    const parsed = toSandbox.safeParse(json);
    if (parsed.success) {
      if ("cancel" in parsed.data) this.#cancel(parsed.data.cancel);
      else void this.#serve(parsed.data.id, parsed.data.request);
      return;
    }
    const id = answerable.safeParse(json);
    if (id.success) this.#send({ id: id.data.id, failure: badRequest(z.prettifyError(parsed.error)) });
    else this.#context.log.warn({ channel: this.#number }, "A message is no request and was dropped");
  }

  onData(payload: Uint8Array): void {
    const data = readData(payload);
    this.#receivers.get(data.stream)?.push(data);
  }

  onCredit(payload: Uint8Array): void {
    const { stream, bytes } = readCredit(payload);
    this.#senders.get(stream)?.grant(bytes);
  }

  /** The peer is gone. Its commands go on; what only it would have read does not. */
  close(): void {
    this.#isClosed = true;
    for (const { withdraw } of this.#pending.values()) withdraw.abort();
    for (const sender of this.#senders.values()) sender.close();
    for (const receiver of this.#receivers.values()) receiver.fail();
    this.#senders.clear();
    this.#receivers.clear();
  }

  async #serve(id: number, request: WireRequest): Promise<void> {
    if (this.#pending.has(id)) return this.#send({ id, failure: badRequest(`Request ${id} is still open`) });
    if (this.#pending.size >= REQUESTS_MAX) return this.#send({ id, failure: badRequest("Too many open requests") });
    const pending: Pending = { id, withdraw: new AbortController(), effect: WITH_EFFECT.has(request.op) };
    this.#pending.set(id, pending);
    const after: Array<() => Promise<void>> = [];
    try {
      const performing = request.op === "hello" ? this.#hello(request) : this.#perform(request, pending, after);
      const answer = pending.effect ? await performing : await Promise.race([performing, withdrawn(pending)]);
      this.#send({ id, answer });
      for (const work of after) await work();
    } catch (error) {
      if (!(error instanceof StreamClosed)) this.#fail(id, error);
    } finally {
      this.#pending.delete(id);
    }
  }

  #perform(request: Exclude<WireRequest, { op: "hello" }>, pending: Pending, after: Array<() => Promise<void>>) {
    const checkEpoch = () => this.#checkEpoch();
    checkEpoch();
    const context: RequestContext = {
      signal: pending.withdraw.signal,
      checkEpoch,
      sender: (stream) =>
        this.#open(this.#senders, stream, new StreamSender(this.#context.outlet, this.#number, stream)),
      receiver: (stream) =>
        this.#open(this.#receivers, stream, new StreamReceiver(this.#context.outlet, this.#number, stream)),
      afterAnswer: (work) => after.push(work),
    };
    const streams = "stream" in request && request.stream !== undefined ? [request.stream] : [];
    pending.withdraw.signal.addEventListener("abort", () => {
      for (const stream of streams) this.#closeStream(stream);
    });
    return perform(this.#context.operations, request, context);
  }

  #hello(request: RequestOf<"hello">) {
    if (request.protocol !== PROTOCOL_VERSION) {
      throw new Refusal(WireCode.badRequest, `Protocol ${request.protocol} is not spoken here, ${PROTOCOL_VERSION} is`);
    }
    this.#greeted = this.#greet(request);
    const { bootId, version } = this.#context;
    return { protocol: PROTOCOL_VERSION, bootId, version };
  }

  #greet({ role, epoch }: RequestOf<"hello">): Greeted {
    if (role === "service") return { role };
    if (epoch === undefined) throw new Refusal(WireCode.badRequest, "A brain says hello with its epoch");
    // Kept also when it is stale, so that what follows is refused for the true reason.
    this.#greeted = { role, epoch };
    this.#context.fence.raise(epoch);
    return this.#greeted;
  }

  #checkEpoch(): void {
    if (this.#greeted === undefined) throw new Refusal(WireCode.badRequest, "A channel's first request is hello");
    if (this.#greeted.role === "brain") this.#context.fence.check(this.#greeted.epoch);
  }

  #cancel(id: number): void {
    const pending = this.#pending.get(id);
    if (pending === undefined || pending.effect) return;
    pending.withdraw.abort();
  }

  #open<S extends StreamSender | StreamReceiver>(streams: Map<number, S>, number: number, stream: S): S {
    if (this.#senders.has(number) || this.#receivers.has(number)) {
      throw new Refusal(WireCode.badRequest, `Stream ${number} is in use`);
    }
    if (this.#senders.size + this.#receivers.size >= REQUESTS_MAX) {
      throw new Refusal(WireCode.badRequest, "Too many open streams");
    }
    streams.set(number, stream);
    stream.onClose(() => streams.delete(number));
    return stream;
  }

  #closeStream(stream: number): void {
    this.#senders.get(stream)?.close();
    this.#receivers.get(stream)?.fail();
  }

  #fail(id: number, error: unknown): void {
    const { code, message, next } = failureOf(isDiskFull(error) ? diskFull(error) : error);
    if (code === "internal") this.#context.log.error({ error: String(error) }, "A request failed");
    const failure = {
      code,
      message: message.slice(0, 4_000),
      ...(next === undefined ? {} : { next: next.slice(0, 2_000) }),
    };
    this.#send({ id, failure });
  }

  /**
   * The relay may give this channel's number to another peer, who must not get this one's answers. It ends the
   * connection of all channels when a frame is too large, so none such leaves.
   */
  #send(message: { id: number; answer: unknown } | { id: number; failure: object }): void {
    if (this.#isClosed) return;
    const frame = this.#frameOf(message);
    if (frame.byteLength <= FRAME_BYTES_MAX) this.#context.outlet.send(frame);
    else this.#context.outlet.send(this.#frameOf({ id: message.id, failure: tooLarge(frame.byteLength) }));
  }

  #frameOf(message: object): Uint8Array {
    return writeFrame(Kind.message, this.#number, Buffer.from(JSON.stringify(message)));
  }
}

/** Rejects when the request is withdrawn, whatever it is waiting for. */
function withdrawn({ withdraw: { signal } }: Pending): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Refusal("cancelled", "The request was withdrawn")));
  });
}

function parseJson(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

function tooLarge(bytes: number) {
  return {
    code: WireCode.tooLarge,
    message: `An answer of ${bytes} bytes is larger than a frame may be (${FRAME_BYTES_MAX})`,
    next: "Ask for less at once",
  };
}

function badRequest(message: string) {
  return { code: WireCode.badRequest, message: message.slice(0, 4_000) };
}
