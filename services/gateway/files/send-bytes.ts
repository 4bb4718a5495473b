// Untrusted bytes to a client: always a download, never more than was promised, and never faster than it takes them.
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";

export type Download = Readonly<{
  /** What the download is called. */
  name: string;
  bytesMax: number;
  /** The bytes are exactly `bytesMax`; fewer are shown to the client as a broken download. */
  exact: boolean;
}>;

/**
 * Throws what the source throws before its first bytes, and the signal's reason. After them the connection is cut
 * instead, so that nobody takes a part for the whole. The source is left as it is: whoever opened it closes it.
 */
export async function sendBytes(
  source: AsyncIterable<Uint8Array>,
  download: Download,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const bytes = source[Symbol.asyncIterator]();
  const first = await unlessAborted(bytes.next(), signal);
  response.writeHead(200, headersOf(download));
  const gone = new AbortController();
  response.once("close", () => gone.abort(new Error("The client is gone")));
  try {
    const either = AbortSignal.any([signal, gone.signal]);
    const sent = await copy(first, bytes, download.bytesMax, { response, signal: either });
    if (download.exact && sent < download.bytesMax) response.destroy();
    else response.end();
  } catch (cause) {
    response.destroy(new Error("The bytes ended before their time", { cause }));
  }
}

async function copy(
  first: IteratorResult<Uint8Array>,
  rest: AsyncIterator<Uint8Array>,
  bytesMax: number,
  to: { response: ServerResponse; signal: AbortSignal },
): Promise<number> {
  let sent = 0;
  for (let part = first; !part.done; part = await unlessAborted(rest.next(), to.signal)) {
    const chunk = part.value.subarray(0, bytesMax - sent);
    sent += chunk.length;
    if (!to.response.write(chunk)) await once(to.response, "drain", { signal: to.signal });
    if (sent === bytesMax) break;
  }
  return sent;
}

function headersOf({ name, bytesMax, exact }: Download): { [name: string]: string } {
  return {
    "content-type": "application/octet-stream",
    "content-disposition": `attachment; filename*=UTF-8''${encodeName(name)}`,
    "cache-control": "no-store",
    ...(exact ? { "content-length": String(bytesMax) } : {}),
  };
}

/** The form of RFC 5987: everything but letters, digits and a few marks is percent-encoded, so no header can be forged. */
function encodeName(name: string): string {
  const encoded = encodeURIComponent(name.toWellFormed());
  return encoded.replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
}
