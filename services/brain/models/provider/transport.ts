// The way to a model's server: Node's HTTP client behind the signature of fetch, which the providers' libraries take.
// For a short reply, fetch itself takes longer than all the rest of a request does (measured). Redirects are not followed
// and nothing is compressed: an API does neither unless it is asked to.
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { Fatal } from "#shared/errors/errors.ts";

type Signal = AbortSignal | null | undefined;

const NO_BODY = new Set([204, 205, 304]);

/** Rejects as fetch does: with the signal's reason, or with a TypeError whose cause says why there is no answer. */
export const fetchOverNode: typeof fetch = async (input, init = {}) => {
  const { body = "", signal, method = "GET" } = init;
  if (input instanceof Request || typeof body !== "string") {
    throw new Fatal("transport_unsupported", "Only an address and a text can be sent to a model");
  }
  signal?.throwIfAborted();
  const url = new URL(input);
  const headers = { ...Object.fromEntries(new Headers(init.headers)), "content-length": Buffer.byteLength(body) };
  const outgoing = (url.protocol === "https:" ? requestHttps : requestHttp)(url, { method, headers });
  const onAbort = () => void outgoing.destroy(reasonOf(signal));
  signal?.addEventListener("abort", onAbort, { once: true });
  // It is emitted when all is over, whatever happened.
  outgoing.once("close", () => signal?.removeEventListener("abort", onAbort));
  outgoing.end(body);
  try {
    return responseOf(await answerTo(outgoing), signal);
  } catch (cause) {
    signal?.throwIfAborted();
    throw new TypeError("fetch failed", { cause });
  }
};

function reasonOf(signal: Signal): Error {
  return signal?.reason instanceof Error ? signal.reason : new Error("The request was given up");
}

function answerTo(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once("response", resolve);
    // Later errors reach whoever reads the answer.
    outgoing.on("error", reject);
  });
}

function responseOf(answer: IncomingMessage, signal: Signal): Response {
  const { statusCode: status = 0, statusMessage: statusText = "" } = answer;
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  if (NO_BODY.has(status)) answer.resume();
  return new Response(NO_BODY.has(status) ? null : bytesOf(answer, signal), { status, statusText, headers });
}

/** Read as fast as it is taken. */
function bytesOf(answer: IncomingMessage, signal: Signal): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isOver = false;
  return new ReadableStream({
    start(controller) {
      answer.on("data", (chunk: Buffer<ArrayBuffer>) => {
        if (isOver) return;
        controller.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
        if ((controller.desiredSize ?? 0) <= 0) answer.pause();
      });
      answer.once("end", () => {
        if (!isOver) controller.close();
        isOver = true;
      });
      answer.on("error", (error) => {
        if (!isOver) controller.error(signal?.aborted ? signal.reason : error);
        isOver = true;
      });
    },
    pull() {
      answer.resume();
    },
    cancel() {
      isOver = true;
      answer.destroy();
    },
  });
}
