// Requests as bytes on a socket, so that a test can send what no HTTP client would.
import { once } from "node:events";
import { createConnection } from "node:net";
import { z } from "zod";

export type RawAnswer = Readonly<{ status: number; message: string; rule: string; head: string; text: string }>;

const refusal = z.object({ message: z.string().default(""), rule: z.string().default("") });

/** Sends the bytes and resolves with all that comes until the other side closes. */
export function sendRaw(socketPath: string, ...parts: readonly (string | Uint8Array)[]): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = createConnection(socketPath);
  let text = "";
  socket.setTimeout(20_000, () => reject(new Error(`No end of an answer within 20 s: ${text.slice(0, 200)}`)));
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  // What was refused before it was read whole is answered first and cut off then.
  socket.on("error", (error) => (text === "" ? reject(error) : resolve(text)));
  socket.once("close", () => resolve(text));
  socket.write(Buffer.concat(parts.map((part) => Buffer.from(part))));
  return promise.finally(() => socket.destroy());
}

/** An answer that goes on: resolves when its head has come. */
export async function follow(socketPath: string, path: string) {
  const socket = createConnection(socketPath);
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  const until = async (holds: (text: string) => boolean): Promise<string> => {
    const deadline = AbortSignal.timeout(20_000);
    while (!holds(text)) await once(socket, "data", { signal: deadline });
    return text;
  };
  socket.write(`GET ${path} HTTP/1.1\r\nhost: docker\r\n\r\n`);
  await until((seen) => seen.includes("\r\n\r\n"));
  return { until, close: () => socket.destroy() };
}

export async function exchange(socketPath: string, ...parts: readonly (string | Uint8Array)[]): Promise<RawAnswer> {
  const text = await sendRaw(socketPath, ...parts);
  const [head, rest] = splitOnce(text, "\r\n\r\n");
  const body = /^transfer-encoding: chunked/im.test(head) ? joined(rest) : rest;
  const parsed = refusal.safeParse(jsonOf(body));
  const { message, rule } = parsed.success ? parsed.data : { message: "", rule: "" };
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0), message, rule, head, text: body };
}

export type Ask = Readonly<{
  method?: string;
  path: string;
  json?: unknown;
  body?: Uint8Array;
  headers?: readonly string[];
}>;

/** One ordinary request. */
export function ask(socketPath: string, { method = "GET", path, json, body, headers = [] }: Ask): Promise<RawAnswer> {
  const content = json === undefined ? body : Buffer.from(JSON.stringify(json));
  const type = json === undefined ? "application/x-tar" : "application/json";
  const lines = [`${method} ${path} HTTP/1.1`, "host: docker", ...headers];
  if (content !== undefined) lines.push(`content-type: ${type}`, `content-length: ${content.byteLength}`);
  return exchange(socketPath, `${lines.join("\r\n")}\r\n\r\n`, content ?? "");
}

function joined(chunks: string): string {
  const [size, rest] = splitOnce(chunks, "\r\n");
  const length = Number.parseInt(size, 16);
  return length > 0 ? rest.slice(0, length) + joined(rest.slice(length + 2)) : "";
}

function splitOnce(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
