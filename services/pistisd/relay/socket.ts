// One WebSocket to the relay. Bun's own client, because it also speaks over a Unix socket and tells how much
// it buffers; it answers the relay's pings by itself.

import { SUBPROTOCOL } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER } from "#schemas/wire/relay-http.ts";
import { Fatal } from "#shared/errors/errors.ts";
import {
  CONNECT_MS_MAX,
  PING_EVERY_MS,
  SILENCE_MS_MAX,
  SOCKET_BUFFER_BYTES_MAX,
  STALL_CHECK_MS,
  STALL_MS_MAX,
} from "../limits.ts";
import type { Outlet } from "./outlet.ts";

const ROOM_CHECK_MS = 2;

export type SocketRequest = Readonly<{
  url: string;
  pass: string;
  bootId: string;
  onOpen: () => void;
  onFrame: (bytes: Uint8Array) => void;
}>;

export type Closed = Readonly<{ code: number; opened: boolean }>;
export type RelaySocket = Outlet & Readonly<{ closed: Promise<Closed>; close: () => void }>;

/** Bun's WebSocket can ping and be cut off; the standard one cannot. */
type BunWebSocket = WebSocket & { ping(): void; terminate(): void };

function connect({ url, pass, bootId }: SocketRequest): BunWebSocket {
  const headers = { authorization: `Bearer ${pass}`, [BOOT_ID_HEADER]: bootId };
  const socket = new WebSocket(url, { headers, protocols: [SUBPROTOCOL] });
  if (!isBunWebSocket(socket)) throw new Fatal("not_bun", "The daemon runs compiled by Bun only");
  socket.binaryType = "arraybuffer";
  return socket;
}

function isBunWebSocket(socket: WebSocket): socket is BunWebSocket {
  return "ping" in socket && "terminate" in socket;
}

export function openRelaySocket(request: SocketRequest): RelaySocket {
  const socket = connect(request);
  const closed = Promise.withResolvers<Closed>();
  const room = openRoom(() => socket.readyState === WebSocket.OPEN && socket.bufferedAmount > SOCKET_BUFFER_BYTES_MAX);
  let opened = false;
  let over = false;
  let heardAt = Date.now();
  const stall = watchStall(() => cutOff());
  const heard = () => {
    heardAt = Date.now();
  };
  const finish = (code: number) => {
    over = true;
    stall.end();
    clearInterval(beat);
    clearTimeout(deadline);
    closed.resolve({ code, opened });
  };
  const cutOff = () => {
    socket.terminate();
    finish(1006);
  };
  const deadline = setTimeout(cutOff, CONNECT_MS_MAX);
  const beat = setInterval(() => {
    if (!opened) return;
    if (Date.now() - heardAt > SILENCE_MS_MAX) cutOff();
    else socket.ping();
  }, PING_EVERY_MS);
  socket.addEventListener("open", () => {
    opened = true;
    clearTimeout(deadline);
    heard();
    request.onOpen();
  });
  socket.addEventListener("message", ({ data }) => {
    if (over) return;
    if (stall.isNow() || Date.now() - heardAt > SILENCE_MS_MAX) return cutOff();
    heard();
    if (data instanceof ArrayBuffer) request.onFrame(new Uint8Array(data));
  });
  socket.addEventListener("pong", heard);
  socket.addEventListener("ping", heard);
  socket.addEventListener("error", heard);
  socket.addEventListener("close", ({ code }) => finish(code));
  return {
    send: (frame) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(frame);
    },
    isFull: room.isFull,
    hasRoom: room.hasRoom,
    closed: closed.promise,
    close: () => socket.close(1000),
  };
}

/**
 * Notices that this process stood still: stopped, paused with its container, or starved. Whoever sent what waits in the
 * pipe may have given it up since, so it is not read: the connection is made anew, and what is still wanted is asked for
 * again (C68). Both clocks count, because one stands still with a sleeping machine and the other may be set.
 */
function watchStall(onStall: () => void) {
  const clocks = () => [performance.now(), Date.now()] as const;
  let seen = clocks();
  const isNow = () => {
    const [steady, wall] = clocks();
    return steady - seen[0] > STALL_MS_MAX || wall - seen[1] > STALL_MS_MAX;
  };
  const timer = setInterval(() => {
    if (isNow()) onStall();
    seen = clocks();
  }, STALL_CHECK_MS);
  return { isNow, end: () => clearInterval(timer) };
}

/** The client announces no drain, so while somebody waits one timer looks for all of them. */
function openRoom(isFull: () => boolean) {
  let waiting: Promise<void> | undefined;
  const look = (resolve: () => void) => {
    if (isFull()) setTimeout(look, ROOM_CHECK_MS, resolve);
    else {
      waiting = undefined;
      resolve();
    }
  };
  return {
    isFull,
    hasRoom: () => {
      waiting ??= new Promise<void>((resolve) => setTimeout(look, ROOM_CHECK_MS, resolve));
      return waiting;
    },
  };
}
