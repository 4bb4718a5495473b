import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Failure, failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";

/** An HTTP status with the failure that explains it. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly failure: Failure;
  constructor(status: number, failure: Failure) {
    super(failure.message);
    this.status = status;
    this.failure = failure;
  }
}

export const unauthorized = () =>
  new HttpError(401, {
    code: "unauthorized",
    message: "This needs the relay's admin key or the sandbox's own pass",
    next: "Send it as `Authorization: Bearer ...`.",
  });

export const notFound = () => new HttpError(404, { code: "not_found", message: "There is nothing here" });

export const tooMany = () =>
  new HttpError(429, { code: "too_many_attempts", message: "Too many attempts", next: "Wait a minute." });

export function httpErrorOf(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof Retryable) return new HttpError(503, failureOf(error));
  if (error instanceof Refusal) return new HttpError(409, failureOf(error));
  return new HttpError(500, { code: "internal", message: "The relay failed", next: "Look at the relay's log." });
}

export function answer(response: ServerResponse, status: number, body?: object): void {
  const text = body === undefined ? "" : JSON.stringify(body);
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(text);
}

/** Refuses an upgrade on the raw socket and ends it. */
export function refuseUpgrade(socket: Duplex, { status, failure }: HttpError): void {
  const body = JSON.stringify(failure);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\nconnection: close\r\ncontent-type: application/json`;
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy());
}

/** The JSON of a body. Throws HttpError 413 or 400. */
export async function readJson(request: IncomingMessage, bytesMax: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    const bytes = Buffer.from(chunk);
    size += bytes.byteLength;
    if (size > bytesMax) {
      throw new HttpError(413, { code: "body_too_large", message: `A body has at most ${bytesMax} bytes` });
    }
    chunks.push(bytes);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new HttpError(400, { code: "bad_request", message: "The body is not JSON" });
  }
}
