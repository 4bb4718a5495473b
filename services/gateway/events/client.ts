// One client of a Server-Sent-Event stream: its socket, its heartbeat, and what waits for it.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { waited } from "#shared/ledger/delivery.ts";
import type { Log } from "#shared/service/log.ts";
import type { GatewayLimits } from "../limits.ts";
import { type Mailbox, openMailbox } from "./mailbox.ts";

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

/** A comment: it says that the stream lives, and that the client is to come back after a second. */
const OPENING = "retry: 1000\n: open\n\n";
const HEARTBEAT = ":\n\n";

export type Client = Readonly<{
  /** Aborts when the client is gone, cut off, or told to leave. */
  signal: AbortSignal;
  mailbox: Mailbox;
  /** Answers with the stream's headers and starts the heartbeat. */
  open: () => void;
  /** Resolves when the socket takes more. Writes nothing once the client is gone. */
  send: (frame: string) => Promise<void>;
  /** Writes a frame that may be left out: it is, when the socket is full. */
  offer: (frame: string) => void;
  /** Ends the stream; the client comes back with its cursor. */
  leave: () => void;
}>;

type Socket = Readonly<{ response: ServerResponse; gone: AbortController; limits: GatewayLimits; log: Log }>;

export function openClient(response: ServerResponse, limits: GatewayLimits, log: Log): Client {
  const gone = new AbortController();
  const socket = { response, gone, limits, log };
  response.once("close", () => gone.abort());
  const { mailboxMessagesMax: messagesMax, mailboxBytesMax: bytesMax } = limits;
  return {
    signal: gone.signal,
    mailbox: openMailbox({ messagesMax, bytesMax }, gone.signal, () => cut(socket, "it does not keep up")),
    open: () => open(socket),
    send: (frame) => send(socket, frame),
    offer: (frame) => offer(socket, frame),
    leave: () => leave(socket),
  };
}

function open(socket: Socket): void {
  // It may have left while its first page was read; nothing would end the heartbeat any more.
  if (socket.gone.signal.aborted) return;
  socket.response.writeHead(200, HEADERS);
  socket.response.write(OPENING);
  const heartbeat = setInterval(offer, socket.limits.heartbeatMs, socket, HEARTBEAT);
  socket.gone.signal.addEventListener("abort", () => clearInterval(heartbeat));
}

async function send(socket: Socket, frame: string): Promise<void> {
  const { response, gone } = socket;
  if (gone.signal.aborted || response.destroyed || response.write(frame)) return;
  const drained = new AbortController();
  const either = AbortSignal.any([gone.signal, drained.signal]);
  const drain = once(response, "drain", { signal: either }).then(
    () => true,
    () => true,
  );
  const stall = waited(socket.limits.stallMs, either).then((passed) => !passed);
  const goesOn = await Promise.race([drain, stall]);
  drained.abort();
  if (!goesOn) cut(socket, "its socket takes nothing");
}

function offer({ response, gone }: Socket, frame: string): void {
  if (!gone.signal.aborted && !response.destroyed && !response.writableNeedDrain) response.write(frame);
}

function cut({ response, gone, log }: Socket, reason: string): void {
  if (gone.signal.aborted) return;
  log.info({ reason }, "A stream's client is cut off; it can come back with its cursor");
  gone.abort();
  response.destroy();
}

function leave({ response, gone }: Socket): void {
  gone.abort();
  if (response.headersSent) response.end();
}
