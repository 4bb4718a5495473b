// The server's end of one WebSocket. It exists beside `ws` because that puts every message together in new memory before
// it gives it away, which the relay, that reads five bytes of it, has no use for.
import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { CONTROL_BYTES_MAX, type Message, Opcode, WebSocketBreach, WebSocketReader } from "./reader.ts";

export type WebSocketLimits = Readonly<{
  messageBytesMax: number;
  /** A client that does not answer a goodbye is cut after this. */
  closeMs: number;
  /** Pings of a client that has more than this to take yet are not answered. */
  unansweredBytesMax: number;
}>;

type Events = { message: [Message]; alive: []; breach: [WebSocketBreach]; close: [] };

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION = "13";
const GOODBYE = 1_000;
/** A smaller message leaves in one piece with its header. */
const JOINED_BYTES_MAX = 4 * 1024;

/** Whether the request is a proper handshake; the caller has looked at its `Upgrade`. */
export function isHandshake({ headers }: IncomingMessage): boolean {
  return (
    headers["sec-websocket-version"] === VERSION && /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "")
  );
}

/** Answers the handshake. `head` is what came after it already. */
export function acceptWebSocket(
  { request, socket, head }: { request: IncomingMessage; socket: Duplex; head: Buffer },
  protocol: string,
  limits: WebSocketLimits,
): WebSocketEnd {
  const key = request.headers["sec-websocket-key"] ?? "";
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
  const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
  socket.write(
    [...lines, `Sec-WebSocket-Accept: ${accept}`, `Sec-WebSocket-Protocol: ${protocol}`, "\r\n"].join("\r\n"),
  );
  return new WebSocketEnd(socket, head, limits);
}

/** `alive` is said of each ping and pong, `close` once, when the socket is gone. */
export class WebSocketEnd extends EventEmitter<Events> {
  readonly #socket: Duplex;
  readonly #limits: WebSocketLimits;
  readonly #reader: WebSocketReader;
  #status: "open" | "closing" | "closed" = "open";
  #isDeaf = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(socket: Duplex, head: Buffer, limits: WebSocketLimits) {
    super();
    this.#socket = socket;
    this.#limits = limits;
    this.#reader = new WebSocketReader(
      {
        message: (message) => void this.emit("message", message),
        ping: (payload) => this.#pinged(payload),
        pong: () => void this.emit("alive"),
        close: () => this.#goodbye(),
      },
      limits.messageBytesMax,
    );
    if (head.byteLength > 0) socket.unshift(head);
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.once("end", () => this.#goodbye());
    socket.once("close", () => this.#closed());
  }

  get isOpen(): boolean {
    return this.#status === "open";
  }

  /** Sends one message in `pieces`, which the caller must not use again. What is sent in one go leaves in one write. */
  send(pieces: readonly Uint8Array[]): void {
    if (this.#status === "open") this.#write(Opcode.binary, pieces);
  }

  ping(): void {
    if (this.#status === "open") this.#write(Opcode.ping, []);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Says goodbye and waits for the client's. */
  close(code: number, reason: string): void {
    if (this.#status !== "open") return;
    const payload = Buffer.alloc(2 + Math.min(Buffer.byteLength(reason), CONTROL_BYTES_MAX - 2));
    payload.writeUInt16BE(code);
    payload.write(reason, 2);
    this.#write(Opcode.close, [payload]);
    this.#leave();
  }

  /** Ends it at once. */
  terminate(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    if (this.#isDeaf) return;
    try {
      this.#reader.push(chunk);
    } catch (error) {
      if (!(error instanceof WebSocketBreach)) throw error;
      if (this.#status === "open") this.emit("breach", error);
      this.close(error.code, error.message);
      this.#readNoMore();
    }
  }

  /** What still comes is thrown away: a socket that is closed over unread bytes would swallow the goodbye. */
  #readNoMore(): void {
    this.#isDeaf = true;
    this.#socket.resume();
  }

  /** Only the latest ping needs an answer, and who does not read needs none. */
  #pinged(payload: Buffer): void {
    this.emit("alive");
    if (this.#status !== "open" || this.#socket.writableLength > this.#limits.unansweredBytesMax) return;
    this.#write(Opcode.pong, [payload]);
  }

  /** The client's goodbye, or the end of what it sends without one. */
  #goodbye(): void {
    this.close(GOODBYE, "");
    this.#socket.end();
    this.#readNoMore();
  }

  #leave(): void {
    this.#status = "closing";
    this.#deadline = setTimeout(() => this.terminate(), this.#limits.closeMs);
    this.#socket.resume();
  }

  #closed(): void {
    this.#status = "closed";
    clearTimeout(this.#deadline);
    this.emit("close");
  }

  #write(opcode: number, pieces: readonly Uint8Array[]): void {
    const socket = this.#socket;
    if (!socket.writable) return;
    if (socket.writableCorked === 0) {
      socket.cork();
      process.nextTick(() => socket.uncork());
    }
    let size = 0;
    for (const piece of pieces) size += piece.byteLength;
    if (size <= JOINED_BYTES_MAX) {
      socket.write(joined(opcode, size, pieces));
      return;
    }
    socket.write(headerOf(opcode, size, 0));
    for (const piece of pieces) socket.write(piece);
  }
}

function joined(opcode: number, size: number, pieces: readonly Uint8Array[]): Buffer {
  const frame = headerOf(opcode, size, size);
  let at = frame.byteLength - size;
  for (const piece of pieces) {
    frame.set(piece, at);
    at += piece.byteLength;
  }
  return frame;
}

/** A server's frames have no mask. `room` for the payload follows. Its memory is shared with nothing that may stay longer. */
function headerOf(opcode: number, size: number, room: number): Buffer {
  const lengthBytes = size < 126 ? 0 : size < 0x10000 ? 2 : 8;
  const header = Buffer.allocUnsafeSlow(2 + lengthBytes + room);
  header[0] = 0x80 | opcode;
  header[1] = lengthBytes === 0 ? size : lengthBytes === 2 ? 126 : 127;
  if (lengthBytes === 2) header.writeUInt16BE(size, 2);
  if (lengthBytes === 8) header.writeBigUInt64BE(BigInt(size), 2);
  return header;
}
