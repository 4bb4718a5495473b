// The server's side of the protocol for tests: a real WebSocket server that a compiled pistisd joins, and
// channels on which tests ask as a brain or a service would.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { FRAME_BYTES_MAX, Kind, readFrame, SUBPROTOCOL, writeFrame } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER, relayPaths } from "#schemas/wire/relay-http.ts";
import { bytesOf, PeerChannel } from "./peer-channel.ts";

export type RelayPeerOptions = Readonly<{
  socketPath: string;
  joinToken: string;
  pass: string;
}>;

export type Connected = Readonly<{ bootId: string; socket: WebSocket }>;

export class RelayPeer {
  readonly options: RelayPeerOptions;
  readonly joins: string[] = [];
  tokenIsSpent = false;
  passIsGood = true;
  answersJoin = true;
  /** Takes no connection, as a relay that is down. */
  isDown = false;
  current: Connected | undefined;
  readonly #server: Server;
  /** As the relay: what sends a larger frame loses its connection. */
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: FRAME_BYTES_MAX,
    handleProtocols: () => SUBPROTOCOL,
  });
  readonly #channels = new Map<number, PeerChannel>();
  #waiting: Array<(connected: Connected) => void> = [];
  readonly #open = new Set<WebSocket>();
  #attempts: Array<() => void> = [];
  #nextChannel = 1;

  constructor(options: RelayPeerOptions) {
    this.options = options;
    this.#server = createServer((request, response) => {
      const status = this.#answer(request);
      response.writeHead(status, { "content-type": "application/json" });
      response.end(status === 200 ? JSON.stringify({ sandboxId: "sbx_1", pass: options.pass }) : "{}");
    });
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  async open(): Promise<this> {
    this.#server.listen(this.options.socketPath);
    await once(this.#server, "listening");
    return this;
  }

  /** The next connection of the daemon, not the present one. */
  nextConnection(): Promise<Connected> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The next request of any kind, also one that is turned away. */
  nextAttempt(): Promise<void> {
    return new Promise((resolve) => this.#attempts.push(resolve));
  }

  /** The connection stays open, but nothing is read from it or said on it, as by a machine that hangs. */
  freeze(): void {
    this.current?.socket.pause();
  }

  openChannel(): PeerChannel {
    const number = this.#nextChannel++;
    const channel = new PeerChannel(number, (frame) => this.current?.socket.send(frame));
    this.#channels.set(number, channel);
    this.current?.socket.send(writeFrame(Kind.open, number, new Uint8Array()));
    return channel;
  }

  closeChannel(channel: PeerChannel): void {
    this.#channels.delete(channel.number);
    this.current?.socket.send(writeFrame(Kind.close, channel.number, new Uint8Array()));
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.terminate();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage): number {
    const bearer = request.headers.authorization?.replace("Bearer ", "") ?? "";
    this.#attempted();
    if (this.isDown) return 503;
    if (request.url === relayPaths.connect) return bearer === this.options.pass && this.passIsGood ? 426 : 401;
    if (request.url !== relayPaths.join || request.method !== "POST") return 404;
    this.joins.push(bearer);
    if (bearer !== this.options.joinToken || this.tokenIsSpent) return 401;
    this.tokenIsSpent = true;
    return 200;
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const bearer = request.headers.authorization?.replace("Bearer ", "");
    const refused = request.url !== relayPaths.connect || bearer !== this.options.pass || !this.passIsGood;
    this.#attempted();
    if (this.isDown) return void socket.destroy();
    if (refused) return void socket.end("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    this.#sockets.handleUpgrade(request, socket, head, (opened) => this.#connected(opened, request));
  }

  #attempted(): void {
    const attempts = this.#attempts;
    this.#attempts = [];
    for (const resolve of attempts) resolve();
  }

  #connected(socket: WebSocket, request: IncomingMessage): void {
    const lost = [...this.#channels.values()];
    this.#channels.clear();
    this.#open.add(socket);
    const connected = { bootId: String(request.headers[BOOT_ID_HEADER]), socket };
    this.current = connected;
    for (const channel of lost) channel.lose();
    socket.on("message", (data) => {
      const { kind, channel, payload } = readFrame(bytesOf(data));
      this.#channels.get(channel)?.onFrame(kind, payload);
    });
    socket.on("error", () => socket.terminate());
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve(connected);
  }
}
