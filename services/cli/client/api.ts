// The HTTP API as functions. Answers are parsed by the schemas that own them; a refusal of the server arrives as
// the same Refusal, with its code and next step.
import { z } from "zod";
import { apiError } from "#schemas/api/error.ts";
import { health } from "#schemas/api/health.ts";
import { pathTo } from "#schemas/api/paths.ts";
import {
  type CreatedSession,
  type CreateSession,
  createdSession,
  type EndedSession,
  endedSession,
  type Interrupted,
  interrupted,
  type PostedMessage,
  type PostMessage,
  postedMessage,
  type SessionDetail,
  type SessionPage,
  sessionDetail,
  sessionPage,
  type WithdrawnMessage,
  withdrawnMessage,
} from "#schemas/api/session.ts";
import { type EventsPage, eventsPage } from "#schemas/api/stream.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";

const REQUEST_MS_MAX = 30_000;
const RETRY_MS = 1_000;

export type Server = Readonly<{ url: string; token: string }>;

export function createSession(server: Server, body: CreateSession): Promise<CreatedSession> {
  return call(server, createdSession, { method: "POST", path: pathTo("sessions", {}), body });
}

export function listSessions(server: Server, limit: number, cursor?: string): Promise<SessionPage> {
  return call(server, sessionPage, { path: pathTo("sessions", {}, { limit, cursor }) });
}

export function getSession(server: Server, sessionId: string): Promise<SessionDetail> {
  return call(server, sessionDetail, { path: pathTo("session", { sessionId }) });
}

export function endSession(server: Server, sessionId: string): Promise<EndedSession> {
  return call(server, endedSession, { method: "DELETE", path: pathTo("session", { sessionId }) });
}

export function postMessage(server: Server, sessionId: string, body: PostMessage): Promise<PostedMessage> {
  return call(server, postedMessage, { method: "POST", path: pathTo("messages", { sessionId }), body });
}

export function withdrawMessage(server: Server, sessionId: string, messageId: string): Promise<WithdrawnMessage> {
  return call(server, withdrawnMessage, { method: "DELETE", path: pathTo("message", { sessionId, messageId }) });
}

export function interruptTurn(server: Server, sessionId: string): Promise<Interrupted> {
  return call(server, interrupted, { method: "POST", path: pathTo("interrupt", { sessionId }) });
}

export function readEvents(server: Server, sessionId: string, after: number, limit: number): Promise<EventsPage> {
  return call(server, eventsPage, { path: pathTo("events", { sessionId }, { after, limit }) });
}

/** Whether a Pistis server answers there; any failure to reach it is a no. */
export async function answers(url: string): Promise<boolean> {
  try {
    await call({ url, token: "" }, health, { path: pathTo("health", {}) });
    return true;
  } catch (error) {
    if (error instanceof Retryable || error instanceof Refusal) return false;
    throw error;
  }
}

type Request = { path: string; method?: "POST" | "DELETE"; body?: object };

async function call<Schema extends z.ZodType>(
  server: Server,
  schema: Schema,
  request: Request,
): Promise<z.output<Schema>> {
  const signal = AbortSignal.timeout(REQUEST_MS_MAX);
  const response = await send(server, request, signal);
  if (!response.ok) throw await refusalOf(response);
  return parsed(schema, await bodyOf(response), server);
}

/** `fetch` with the server's token. Throws a Retryable `server_unreachable` when nobody answers. */
export async function send(
  server: Server,
  { path, method = undefined, body }: Request,
  signal: AbortSignal,
  headers: { [name: string]: string } = {},
): Promise<Response> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const type: { [name: string]: string } = body === undefined ? {} : { "content-type": "application/json" };
  const all = { authorization: `Bearer ${server.token}`, ...type, ...headers };
  try {
    return await fetch(new URL(path, server.url), { method: method ?? "GET", headers: all, ...content, signal });
  } catch (cause) {
    throw unreachable(server, cause);
  }
}

export function unreachable(server: Server, cause: unknown): Retryable {
  return new Retryable("server_unreachable", `No answer from ${server.url}`, {
    cause,
    retryAfterMs: RETRY_MS,
    next: "See that pistis dev runs, or that PISTIS_URL is right",
  });
}

/** The server's own reason, or what its status says when something else answers there. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const reason = apiError.safeParse(await bodyOf(response));
  if (!reason.success) {
    return new Refusal("bad_answer", `${response.url} answered ${response.status}, which is no answer of Pistis`, {
      next: "See what listens at that address",
    });
  }
  const { code, message, next, issues = [] } = reason.data;
  const details = issues.map(({ path, message: problem }) => `\n  ${path}: ${problem}`).join("");
  return new Refusal(code, `${message}${details}`, next === undefined ? {} : { next });
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function parsed<Schema extends z.ZodType>(schema: Schema, body: unknown, server: Server): z.output<Schema> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw new Refusal("bad_answer", `${server.url} gave an answer that this version does not understand`, {
    cause: new Error(z.prettifyError(result.error)),
    next: "Use the same version of Pistis for the server and the command line",
  });
}
