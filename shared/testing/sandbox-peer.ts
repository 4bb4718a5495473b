// The sandbox's end of a relay connection for tests: frames in, frames out, by the hand of the test.
import { createServer, type Server } from "node:http";
import { type RawData, WebSocket, WebSocketServer } from "ws";
import { type Frame, Kind, readFrame, SUBPROTOCOL, writeFrame } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER, relayPaths, type SandboxStatus } from "#schemas/wire/relay-http.ts";

/** A socket whose frames wait until the test takes them. */
export type FrameSocket = Readonly<{
  ws: WebSocket;
  send: (frame: Uint8Array) => void;
  /** The next frame, also one that came before it was asked for. Rejects when the socket ends first. */
  next: () => Promise<Frame>;
  /** Calls the listener with each frame, first those that wait. */
  each: (listener: (frame: Frame) => void) => void;
  closed: Promise<{ code: number; reason: string }>;
}>;

export function frameSocket(ws: WebSocket): FrameSocket {
  const waiting: Frame[] = [];
  let takers: Array<PromiseWithResolvers<Frame>> = [];
  let listener: ((frame: Frame) => void) | undefined;
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    ws.on("close", (code, reason) => {
      resolve({ code, reason: reason.toString() });
      for (const taker of takers) taker.reject(new Error(`The socket ended with ${code} ${reason.toString()}`));
      takers = [];
    });
  });
  ws.on("error", () => undefined);
  ws.on("message", (data: RawData) => {
    const frame = readFrame(Buffer.isBuffer(data) ? data : new Uint8Array(0));
    const taker = takers.shift();
    if (listener !== undefined) listener(frame);
    else if (taker !== undefined) taker.resolve(frame);
    else waiting.push(frame);
  });
  return {
    ws,
    send: (frame) => ws.send(frame, { binary: true }),
    next: () => {
      const frame = waiting.shift();
      if (frame !== undefined) return Promise.resolve(frame);
      const taker = Promise.withResolvers<Frame>();
      takers.push(taker);
      return taker.promise;
    },
    each: (wanted) => {
      listener = wanted;
      for (const frame of waiting.splice(0)) wanted(frame);
    },
    closed,
  };
}

export const wireOptions = { perMessageDeflate: false, maxPayload: 1024 * 1024 } as const;

/** Connects as a sandbox does. `url` is ws(s)://... or ws+unix:///path/of/relay.sock: */
export async function connectSandbox(options: { url: string; pass: string; bootId: string }): Promise<FrameSocket> {
  const headers = { authorization: `Bearer ${options.pass}`, [BOOT_ID_HEADER]: options.bootId };
  const ws = new WebSocket(`${options.url}${relayPaths.connect}`, [SUBPROTOCOL], { ...wireOptions, headers });
  const socket = frameSocket(ws);
  await opened(ws);
  return socket;
}

export function opened(ws: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    ws.once("open", () => resolve());
    ws.once("error", reject);
  });
}

/**
 * A sandbox with the relay in front of it in one, so that a link can be tested without a relay: every link that
 * attaches is told that the sandbox is online.
 */
export async function startSandboxServer(options: {
  adminKey: string;
  status: () => SandboxStatus;
  onPeer: (socket: FrameSocket) => void;
}): Promise<{ url: string; peers: Set<FrameSocket>; server: Server; close: () => Promise<void> }> {
  const server = createServer();
  const sockets = new WebSocketServer({ server, ...wireOptions, handleProtocols: () => SUBPROTOCOL });
  const peers = new Set<FrameSocket>();
  sockets.on("connection", (ws) => {
    const socket = frameSocket(ws);
    peers.add(socket);
    ws.on("close", () => peers.delete(socket));
    socket.send(writeFrame(Kind.status, 0, Buffer.from(JSON.stringify(options.status()))));
    options.onPeer(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    peers,
    server,
    close: async () => {
      for (const { ws } of peers) ws.terminate();
      sockets.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
