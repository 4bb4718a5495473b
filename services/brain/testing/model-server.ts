// A model server on this machine that speaks the wire formats of the real providers over HTTP and SSE: Anthropic
// Messages, OpenAI Responses and OpenAI chat completions. Tests say what it answers; the bench uses it as the model
// that needs no time.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Json } from "../session/history.ts";
import { anthropicEvents } from "./wire-anthropic.ts";
import { chatEvents } from "./wire-chat.ts";
import { responsesEvents } from "./wire-responses.ts";

export type ModelApi = "anthropic" | "openai" | "openai-compatible";

/** `input` a string: sent as it is, so it may be malformed. */
export type ServedCall = Readonly<{ id: string; name: string; input: Json }>;

export type ServedReply = Readonly<{
  kind: "reply";
  text?: string;
  reasoning?: Readonly<{ text: string; signature: string }>;
  calls?: readonly ServedCall[];
  finish?: "stop" | "length";
  usage?: Readonly<{ input: number; output: number; cacheRead?: number; cacheWrite?: number }>;
}>;

export type Served =
  | ServedReply
  | Readonly<{ kind: "status"; status: number; headers?: Record<string, string>; body: Json }>
  /** Answers with 200 and this, whatever it is. */
  | Readonly<{ kind: "raw"; contentType: string; body: string }>
  /** Sends the start of a reply and then nothing more; the connection stays open. */
  | Readonly<{ kind: "silence"; text: string }>;

/** `body` is JSON, as it came: reading it is left to whoever wants to know. */
export type ModelRequestSeen = Readonly<{ api: ModelApi; headers: IncomingMessage["headers"]; body: string }>;

export type ModelServer = Readonly<{
  /** Base URL for any of the three APIs. */
  url: string;
  requests: readonly ModelRequestSeen[];
  /** Resolves when the answer to that request, which has come, is over: sent, or not wanted any more. */
  over: (request: number) => Promise<void>;
  /** Breaks every connection off, wherever its reply is. */
  breakOff: () => void;
  close: () => Promise<void>;
}>;

const PATHS: Readonly<Record<string, ModelApi>> = {
  "/v1/messages": "anthropic",
  "/v1/responses": "openai",
  "/v1/chat/completions": "openai-compatible",
};
const EVENTS = { anthropic: anthropicEvents, openai: responsesEvents, "openai-compatible": chatEvents } as const;
/** A reply's events after these belong to its end: a reply that goes silent sends only what is before. */
const ENDING_EVENTS = { anthropic: 3, openai: 2, "openai-compatible": 3 } as const;

/** `answer` is called once per request, with how many came before it. */
export async function startModelServer(
  answer: (request: ModelRequestSeen, count: number) => Served,
): Promise<ModelServer> {
  const requests: ModelRequestSeen[] = [];
  const ends: Promise<void>[] = [];
  const server = createServer((request, response) => {
    const seenAs = (seen: ModelRequestSeen) => {
      ends.push(new Promise((resolve) => response.once("close", resolve)));
      return answer(seen, requests.push(seen) - 1);
    };
    serve(request, response, seenAs).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The model server has no port");
  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    requests,
    over: async (request) => ends[request],
    breakOff: () => server.closeAllConnections(),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  answer: (seen: ModelRequestSeen) => Served,
): Promise<void> {
  const api = PATHS[request.url ?? ""];
  const chunks: Buffer[] = [];
  for await (const chunk of request) if (chunk instanceof Buffer) chunks.push(chunk);
  if (api === undefined) {
    response.writeHead(404).end();
    return;
  }
  const body = Buffer.concat(chunks).toString("utf8");
  send(response, api, answer({ api, headers: request.headers, body }));
}

function send(response: ServerResponse, api: ModelApi, served: Served): void {
  if (served.kind === "status") {
    response.writeHead(served.status, { "content-type": "application/json", ...served.headers });
    response.end(JSON.stringify(served.body));
    return;
  }
  if (served.kind === "raw") {
    response.writeHead(200, { "content-type": served.contentType }).end(served.body);
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  if (served.kind === "reply") {
    response.end(EVENTS[api](served).join(""));
    return;
  }
  const beginning = EVENTS[api]({ kind: "reply", text: served.text }).slice(0, -ENDING_EVENTS[api]);
  response.write(beginning.join(""));
}
