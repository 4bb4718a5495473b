// One WebSocket to the relay, from the dial to its end, with a watch on whether it still lives.
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import { FRAME_BYTES_MAX, SUBPROTOCOL } from "#schemas/wire/frame.ts";
import type { LinkLimits } from "./limits.ts";

/** `httpStatus` is there when the relay refused the dial. */
export type SocketEnd = Readonly<{ code: number; httpStatus: number | undefined; reason: string }>;

export type RelaySocket = Readonly<{
  /** `left` is called when the frame left this process. */
  send: (frame: Uint8Array, left?: () => void) => void;
  /** Ends it with a goodbye. */
  close: () => void;
  /** Ends it at once. */
  terminate: () => void;
  /** Resolves when it has ended. */
  gone: Promise<void>;
}>;

type Dial = Readonly<{
  url: string;
  adminKey: string;
  limits: LinkLimits;
  /** How it gets to the relay; over the network when absent. */
  connect: (() => Duplex) | undefined;
  received: (frame: Uint8Array) => void;
  /** Called once, whatever happened. */
  ended: (end: SocketEnd) => void;
}>;

const CLOSE_MS = 1_000;

export function dialRelay({ url, adminKey, limits, connect, received, ended }: Dial): RelaySocket {
  const ws = new WebSocket(url, [SUBPROTOCOL], {
    headers: { authorization: `Bearer ${adminKey}` },
    perMessageDeflate: false,
    maxPayload: FRAME_BYTES_MAX,
    handshakeTimeout: limits.handshakeMs,
    ...(connect === undefined ? {} : { createConnection: connect }),
  });
  const gone = Promise.withResolvers<void>();
  let httpStatus: number | undefined;
  let failure = "";
  let watch: NodeJS.Timeout | undefined;
  const alive = () => watch?.refresh();
  ws.on("open", () => {
    watch = setTimeout(() => ws.terminate(), limits.silenceMs);
  });
  ws.on("ping", alive);
  ws.on("message", (data, isBinary) => {
    alive();
    if (isBinary && Buffer.isBuffer(data)) received(data);
  });
  ws.on("unexpected-response", (_request, response) => {
    httpStatus = response.statusCode;
    response.resume();
    ws.terminate();
  });
  ws.on("error", (error) => {
    failure = error.message;
  });
  ws.on("close", (code, reason) => {
    clearTimeout(watch);
    ended({ code, httpStatus, reason: reason.toString() || failure });
    gone.resolve();
  });
  return {
    send: (frame, left) => {
      if (ws.readyState === WebSocket.OPEN) ws.send(frame, { binary: true }, left);
    },
    close: () => {
      const patience = setTimeout(() => ws.terminate(), CLOSE_MS);
      ws.once("close", () => clearTimeout(patience));
      ws.close(1000);
    },
    terminate: () => ws.terminate(),
    gone: gone.promise,
  };
}
