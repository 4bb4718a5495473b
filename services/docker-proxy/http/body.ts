import type { IncomingMessage } from "node:http";
import { malformed, Refused, tooLarge } from "./refused.ts";

/** The JSON of a body; undefined when there is none. Throws Refused 400, 413 and 415. */
export async function readJson(request: IncomingMessage, bytesMax: number): Promise<unknown> {
  const text = await readText(request, bytesMax);
  if (text === "") return undefined;
  if (!/^application\/json(?:; ?charset=utf-8)?$/i.test(request.headers["content-type"] ?? "")) {
    throw new Refused(415, "body_not_json", "The body has to be application/json");
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw malformed("body_not_json", "The body is not JSON");
  }
}

/** Throws Refused `body_unexpected` when anything comes: some calls of old clients hide settings in such a body. */
export async function readNothing(request: IncomingMessage): Promise<void> {
  const text = await readText(request, 2);
  if (text !== "" && text !== "{}") throw malformed("body_unexpected", "This call takes no body");
}

async function readText(request: IncomingMessage, bytesMax: number): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    const bytes = Buffer.from(chunk);
    size += bytes.byteLength;
    if (size > bytesMax) throw tooLarge(bytesMax);
    chunks.push(bytes);
  }
  return utf8Of(Buffer.concat(chunks));
}

function utf8Of(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw malformed("body_not_text", "The body is not UTF-8");
  }
}
