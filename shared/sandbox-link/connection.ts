// Keeps a peer connected to its sandbox: dials the relay, says hello whenever the sandbox (again) is there,
// dials again after a loss. Whatever comes once the sandbox has accepted the peer goes to `events.frame`.
import type { Duplex } from "node:stream";
import type { z } from "zod";
import { type Frame, Kind, readFrame, writeFrame } from "#schemas/wire/frame.ts";
import {
  type AnswerOf,
  answers,
  type failure,
  PROTOCOL_VERSION,
  type RequestOf,
  toServer,
  WireCode,
} from "#schemas/wire/message.ts";
import { CloseCode, sandboxStatus } from "#schemas/wire/relay-http.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { SandboxBreach } from "./breach.ts";
import type { LinkLimits } from "./limits.ts";
import { SandboxLost } from "./link.ts";
import { dialRelay, type RelaySocket, type SocketEnd } from "./socket.ts";

/** One start of pistisd in one life of the sandbox. */
export type Boot = Readonly<{ bootId: string; generation: number }>;

export type ConnectionEvents = Readonly<{
  ready: (boot: Boot) => void;
  /** The sandbox, the relay or the way to it is gone for now. */
  lost: () => void;
  /** May throw SandboxBreach. */
  frame: (frame: Frame) => void;
  /** The sandbox broke the protocol: what was under way is lost. */
  breached: (breach: SandboxBreach) => void;
  /** It makes no sense to wait for the sandbox. */
  refused: (error: Error) => void;
  /** pistisd does not take this peer for now, and says why. */
  turnedAway: (refusal: Refusal) => void;
  /** Whether somebody waits: then a relay that does not know the sandbox is asked again. */
  isWaitedFor: () => boolean;
}>;

type Options = Readonly<{
  url: string;
  adminKey: string;
  connect: (() => Duplex) | undefined;
  hello: Omit<RequestOf<"hello">, "op" | "protocol">;
  limits: LinkLimits;
  log: Log;
  events: ConnectionEvents;
  nextId: () => number;
}>;

type State =
  | { status: "idle" }
  | { status: "resting"; timer: NodeJS.Timeout }
  | { status: "dialled"; socket: RelaySocket }
  | { status: "greeting"; socket: RelaySocket; helloId: number; generation: number }
  | { status: "ready"; socket: RelaySocket; boot: Boot }
  | { status: "over"; error: Error };

export class Connection {
  readonly #options: Options;
  #state: State = { status: "idle" };
  #attempts = 0;

  constructor(options: Options) {
    this.#options = options;
    this.#dial();
  }

  get boot(): Boot | undefined {
    return this.#state.status === "ready" ? this.#state.boot : undefined;
  }

  /** Why this connection never will be ready again. */
  get error(): Error | undefined {
    return this.#state.status === "over" ? this.#state.error : undefined;
  }

  /** Sends to the sandbox; does nothing while there is no way to it. `left` is called when the frame left this process. */
  send(frame: Uint8Array, left?: () => void): void {
    if (this.#state.status === "ready") this.#state.socket.send(frame, left);
  }

  /** Somebody waits: dial now if that was given up. */
  wake(): void {
    if (this.#state.status === "idle") this.#dial();
  }

  /** Gives the channel up because of what the sandbox sent; the next request makes a new one. */
  breach(breach: SandboxBreach): void {
    const socket = this.#socket();
    if (socket === undefined) return;
    const reason = breach.cause === undefined ? breach.message : `${breach.message}: ${String(breach.cause)}`;
    this.#options.log.warn({ url: this.#options.url, reason: reason.slice(0, 500) }, "A sandbox broke the protocol");
    this.#drop(socket);
    this.#options.events.breached(breach);
  }

  /** Nothing comes after this. Resolves when the socket is gone. */
  async close(error: Error): Promise<void> {
    const socket = this.#socket();
    if (this.#state.status === "resting") clearTimeout(this.#state.timer);
    this.#state = { status: "over", error };
    socket?.close();
    await socket?.gone;
  }

  #socket(): RelaySocket | undefined {
    return "socket" in this.#state ? this.#state.socket : undefined;
  }

  #dial(): void {
    const { url, adminKey, limits, connect } = this.#options;
    const isCurrent = () => this.#socket() === socket;
    const socket = dialRelay({
      url,
      adminKey,
      limits,
      connect,
      received: (frame) => {
        if (isCurrent()) this.#receive(frame);
      },
      ended: (end) => {
        if (isCurrent()) this.#ended(end);
      },
    });
    this.#state = { status: "dialled", socket };
  }

  #rest(): void {
    const { reconnectMsMin, reconnectMsMax } = this.#options.limits;
    const waitMs = Math.min(reconnectMsMax, reconnectMsMin * 2 ** Math.min(this.#attempts, 16));
    this.#attempts += 1;
    const timer = setTimeout(() => this.#dial(), waitMs * (0.5 + Math.random() / 2));
    this.#state = { status: "resting", timer };
  }

  /** Leaves the ready state, telling so once. */
  #leave(): void {
    const wasReady = this.#state.status === "ready";
    const socket = this.#socket();
    if (socket !== undefined) this.#state = { status: "dialled", socket };
    if (wasReady) this.#options.events.lost();
  }

  /** Whoever comes later is a reason to dial again. */
  #drop(socket: RelaySocket): void {
    this.#leave();
    this.#state = { status: "idle" };
    socket.terminate();
  }

  #ended({ code, httpStatus, reason }: SocketEnd): void {
    this.#leave();
    this.#options.log.debug({ url: this.#options.url, code, httpStatus, reason }, "A link to a sandbox was cut");
    const error = finalError(code, httpStatus, reason);
    if (error !== undefined) this.#refuse(error);
    else if (httpStatus === 404 && !this.#options.events.isWaitedFor()) this.#state = { status: "idle" };
    else this.#rest();
  }

  /** Fails who waits; whoever comes later is a reason to dial again. */
  #refuse(error: Error): void {
    this.#state = { status: "idle" };
    this.#options.events.refused(error);
  }

  #receive(bytes: Uint8Array): void {
    try {
      const frame = readFrame(bytes);
      if (frame.kind === Kind.status) this.#status(frame.payload);
      else if (this.#state.status === "greeting") this.#greeted(frame);
      else if (this.#state.status === "ready") this.#options.events.frame(frame);
    } catch (error) {
      this.breach(
        error instanceof SandboxBreach ? error : new SandboxBreach("What came cannot be read", { cause: error }),
      );
    }
  }

  /** Each online status stands for a new connection of the sandbox, which knows nothing of this peer yet. */
  #status(payload: Uint8Array): void {
    const status = sandboxStatus.parse(JSON.parse(Buffer.from(payload).toString()));
    this.#attempts = 0;
    this.#leave();
    const socket = this.#socket();
    if (!status.online || socket === undefined) return;
    const helloId = this.#options.nextId();
    this.#state = { status: "greeting", socket, helloId, generation: status.generation };
    const request = { op: "hello" as const, protocol: PROTOCOL_VERSION, ...this.#options.hello };
    socket.send(writeFrame(Kind.message, 0, Buffer.from(JSON.stringify({ id: helloId, request }))));
  }

  #greeted(frame: Frame): void {
    if (this.#state.status !== "greeting") return;
    const { socket, helloId, generation } = this.#state;
    if (frame.kind !== Kind.message) return;
    const message = toServer.parse(JSON.parse(Buffer.from(frame.payload).toString()));
    if (message.id !== helloId) return;
    if ("failure" in message) this.#helloFailed(message.failure, socket);
    else this.#helloAnswered(answers.hello.parse(message.answer), socket, generation);
  }

  #helloAnswered({ bootId, protocol }: AnswerOf<"hello">, socket: RelaySocket, generation: number): void {
    if (protocol !== PROTOCOL_VERSION) {
      this.#over(otherProtocol(protocol));
      return;
    }
    const boot = { bootId, generation };
    this.#state = { status: "ready", socket, boot };
    this.#options.events.ready(boot);
  }

  #helloFailed({ code, message, next }: z.output<typeof failure>, socket: RelaySocket): void {
    const refusal = new Refusal(code, message, next === undefined ? {} : { next });
    if (code === WireCode.epochStale) {
      this.#over(refusal);
      return;
    }
    this.#drop(socket);
    this.#options.events.turnedAway(refusal);
  }

  #over(error: Error): void {
    void this.close(error);
    this.#options.events.refused(error);
  }
}

/** Why a connection that ended so must not be dialled again by itself. */
function finalError(code: number, httpStatus: number | undefined, reason: string): Error | undefined {
  if (httpStatus === 401) return keyRefused();
  if (code === CloseCode.refused) return sandboxGone();
  return code === CloseCode.protocol || code === CloseCode.replaced ? relayRefused(code, reason) : undefined;
}

function keyRefused(): Fatal {
  return new Fatal("relay_key_refused", "The relay does not accept the admin key", {
    next: "Give the relay and the services the same PISTIS_RELAY_KEY.",
  });
}

const sandboxGone = () => new SandboxLost("unreachable", "The relay was told that this sandbox is gone for good");

const relayRefused = (code: number, reason: string) =>
  new Fatal("relay_refused", `The relay ended the connection with ${code}: ${reason}`);

function otherProtocol(protocol: number): Fatal {
  return new Fatal("protocol_mismatch", `pistisd speaks protocol ${protocol}, this server ${PROTOCOL_VERSION}`, {
    next: "Start the sandbox again with the pistisd of this server.",
  });
}
