// Answers in the engine's own shape. Each connection carries one request, so what a caller sends after it, or is left of
// a body that was not read, is never taken for another one.
import type { ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { Refused } from "./refused.ts";

export type Answer = Readonly<{ status: number; body: Buffer }>;

const NO_BODY = new Set([204, 304]);

/** `type`: of the body; whatever the engine called it. */
export function answer(response: ServerResponse, { status, body }: Answer, type = "application/json"): void {
  response.setHeader("connection", "close");
  if (NO_BODY.has(status)) {
    response.writeHead(status).end();
    return;
  }
  response.writeHead(status, { "content-type": type, "content-length": body.byteLength });
  response.end(body);
}

export function answerJson(response: ServerResponse, value: object): void {
  answer(response, { status: 200, body: Buffer.from(JSON.stringify(value)) });
}

/** Says no, on a response whose head is not written. */
export function refuse(response: ServerResponse, refused: Refused): void {
  answer(response, { status: refused.status, body: textOf(refused) });
}

/** The same where there is only the raw socket. */
export function refuseOn(socket: Duplex, refused: Refused): void {
  const body = textOf(refused);
  const head = [
    `HTTP/1.1 ${refused.status} ${STATUS_CODES[refused.status] ?? "Refused"}`,
    "content-type: application/json",
    `content-length: ${body.byteLength}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

function textOf({ rule, message }: Refused): Buffer {
  return Buffer.from(JSON.stringify({ message: `docker-proxy: ${message} (${rule})`, rule }));
}

export function refusedOf(error: unknown): Refused {
  if (error instanceof Refused) return error;
  return new Refused(500, "internal", "docker-proxy failed; its log says why", { cause: error });
}
