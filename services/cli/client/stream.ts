// Server-Sent Events with reconnection: a dropped stream goes on after the last ledger message that was seen, so
// none is missed and none comes twice.
import { setTimeout as delay } from "node:timers/promises";
import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";
import { pathTo } from "#schemas/api/paths.ts";
import {
  type InstallStreamQuery,
  type LedgerMessageView,
  ledgerMessage,
  liveEvent,
  SSE_LEDGER,
  SSE_LIVE,
} from "#schemas/api/stream.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { parsed, refusalOf, type Server, send, unreachable } from "./api.ts";

/** The server sends a comment every 15 s; a stream that is silent for longer than this is dead. */
const SILENCE_MS_MAX = 45_000;
const RECONNECT_MS_FIRST = 100;
const RECONNECT_MS_MAX = 5_000;
const RECONNECTS_MAX = 100;
const EVENT_CHARACTERS_MAX = 16 * 1024 * 1024;

export type StreamItem =
  | { kind: "ledger"; message: LedgerMessageView }
  | { kind: "live"; message: LiveMessage }
  | { kind: "reconnecting"; afterMs: number };

type ReceivedItem = Exclude<StreamItem, { kind: "reconnecting" }>;

/** After a sequence of the ledger (0: from the session's first message on), or with its last so many messages. */
export type SessionStart = number | Readonly<{ last: number }>;

/** A session's ledger from `start` on, then what comes, with live output between; ends when `signal` aborts. */
export function followSession(
  server: Server,
  sessionId: string,
  start: SessionStart,
  signal: AbortSignal,
): AsyncGenerator<StreamItem> {
  const [after, last] = typeof start === "number" ? [start, undefined] : [undefined, start.last];
  const pathAfter = (cursor: number | undefined) =>
    pathTo("stream", { sessionId }, cursor === undefined ? { last } : { after: cursor });
  return follow(server, pathAfter, after, signal);
}

/** The ledger of the whole install; without `after` only what comes. */
export function followInstall(
  server: Server,
  query: InstallStreamQuery,
  signal: AbortSignal,
): AsyncGenerator<StreamItem> {
  const { after, ...filter } = query;
  return follow(server, (cursor) => pathTo("installStream", {}, { ...filter, after: cursor }), after, signal);
}

async function* follow(
  server: Server,
  pathAfter: (cursor: number | undefined) => string,
  after: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<StreamItem> {
  let cursor = after;
  let failures = 0;
  while (!signal.aborted) {
    try {
      for await (const item of readOnce(server, pathAfter(cursor), cursor, signal)) {
        failures = 0;
        if (item.kind === "ledger") cursor = item.message.sequence;
        yield item;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Retryable) || ++failures > RECONNECTS_MAX) throw error;
    }
    if (signal.aborted) return;
    const afterMs = Math.min(RECONNECT_MS_FIRST * 2 ** failures, RECONNECT_MS_MAX);
    yield { kind: "reconnecting", afterMs };
    await delay(afterMs, undefined, { signal }).catch(ignoreAbort);
  }
}

function ignoreAbort(error: Error): void {
  if (error.name !== "AbortError") throw error;
}

/** One connection. Returns when the server ends it; throws a Retryable when it breaks or falls silent. */
async function* readOnce(
  server: Server,
  path: string,
  cursor: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<ReceivedItem> {
  const silent = new AbortController();
  const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
  const timer = setTimeout(() => silent.abort(), SILENCE_MS_MAX);
  try {
    const either = AbortSignal.any([signal, silent.signal]);
    const response = await send(server, { path }, either, { accept: "text/event-stream", ...headers });
    if (!response.ok) throw await failureOf(response);
    if (response.body === null) throw unreachable(server, new Error("An event stream without a body"));
    const events = response.body
      .pipeThrough(onEachChunk(() => timer.refresh()))
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream({ maxBufferSize: EVENT_CHARACTERS_MAX }));
    for await (const event of events) {
      const item = itemOf(event, server);
      if (item !== undefined) yield item;
    }
  } catch (error) {
    if (error instanceof Refusal || error instanceof Retryable) throw error;
    throw unreachable(server, error);
  } finally {
    clearTimeout(timer);
    silent.abort();
  }
}

function onEachChunk(heard: () => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform: (chunk, controller) => {
      heard();
      controller.enqueue(chunk);
    },
  });
}

async function failureOf(response: Response): Promise<Refusal | Retryable> {
  const refusal = await refusalOf(response);
  if (response.status < 500 && response.status !== 429) return refusal;
  return new Retryable(refusal.code, refusal.message, { cause: refusal, retryAfterMs: RECONNECT_MS_MAX });
}

function itemOf(event: EventSourceMessage, server: Server): ReceivedItem | undefined {
  if (event.event === SSE_LEDGER) return { kind: "ledger", message: parsed(ledgerMessage, json(event), server) };
  if (event.event === SSE_LIVE) return { kind: "live", message: parsed(liveEvent, json(event), server).message };
  return undefined;
}

function json(event: EventSourceMessage): unknown {
  try {
    return JSON.parse(event.data);
  } catch (cause) {
    throw new Refusal("bad_answer", "The event stream holds what is no JSON", { cause });
  }
}
