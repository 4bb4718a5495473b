import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { CONNECT_MS_MAX } from "../limits.ts";
import type { RelayAddress } from "./address.ts";

const ANSWER_BYTES_MAX = 64 * 1024;

export type RelayAnswer = Readonly<{ status: number; body: string }>;

/** One request to the relay. Rejects when there is no whole answer in time. */
export function askRelay(
  address: RelayAddress,
  request: Readonly<{ method: "GET" | "POST"; path: string; bearer?: string }>,
): Promise<RelayAnswer> {
  return new Promise((resolve, reject) => {
    const options: RequestOptions = {
      method: request.method,
      headers: {
        ...(request.bearer === undefined ? {} : { authorization: `Bearer ${request.bearer}` }),
        "content-length": 0,
      },
      signal: AbortSignal.timeout(CONNECT_MS_MAX),
    };
    const onAnswer = (response: IncomingMessage) => void readAnswer(response).then(resolve, reject);
    const sent =
      address.kind === "unix"
        ? httpRequest({ ...options, socketPath: address.socketPath, path: request.path }, onAnswer)
        : sendTo(new URL(request.path, address.url), options, onAnswer);
    sent.on("error", reject);
    sent.end();
  });
}

function sendTo(url: URL, options: RequestOptions, onAnswer: (response: IncomingMessage) => void) {
  return url.protocol === "https:" ? httpsRequest(url, options, onAnswer) : httpRequest(url, options, onAnswer);
}

async function readAnswer(response: IncomingMessage): Promise<RelayAnswer> {
  let body = "";
  response.setEncoding("utf8");
  for await (const text of response) {
    body += String(text);
    if (body.length > ANSWER_BYTES_MAX) throw new Error("The relay's answer is too large");
  }
  return { status: response.statusCode ?? 0, body };
}
