// Plain HTTP, one request at a time: the host is looked at anew for each of a connection, and there is exactly one.
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { authorityText, parseAuthority } from "#schemas/network/authority.ts";
import type { Client } from "../pipe/pipe.ts";
import type { Target } from "../policy/policy.ts";
import type { ProxyParts } from "./parts.ts";
import { authorise, reach, Unreached } from "./reach.ts";
import { refusalAnswer } from "./refusal.ts";

const HTTP_PORT = 80;

/** Meant for the next hop, not for the server behind. */
const HOP_BY_HOP = new Set([
  ...["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer"],
  ...["transfer-encoding", "upgrade", "expect", "http2-settings"],
]);

export type Exchange = Readonly<{
  client: Client;
  request: IncomingMessage;
  response: ServerResponse;
  /** The host that this connection is a tunnel to; a request to the proxy itself names its own. */
  tunnelTo: Target | undefined;
}>;

type Asked = Readonly<{ target: Target; path: string }>;

/** Answers one request, whatever becomes of it. */
export async function forward(parts: ProxyParts, exchange: Exchange): Promise<void> {
  const { client, request, response, tunnelTo } = exchange;
  const asked = askedFor(request, tunnelTo);
  const shown = asked?.target ?? tunnelTo ?? { host: shownHost(request), port: 0 };
  const entry = parts.journal.begin(client, { ...shown, via: "http" });
  try {
    if (asked === undefined || !isFramed(request)) throw new Unreached("request_malformed");
    if (!namesHost(request, asked.target)) throw new Unreached("host_mismatch");
    await authorise(parts, client, asked.target);
    const upstream = await reach(parts, asked.target);
    parts.journal.opened(entry, () => ({ up: upstream.bytesWritten, down: upstream.bytesRead }));
    await exchangeWith(upstream, asked, exchange, parts.limits.idleMs).finally(() => upstream.destroy());
    parts.journal.end(entry, "ended");
  } catch (error) {
    const reason = error instanceof Unreached ? error.reason : "connect_failed";
    parts.journal.end(entry, entry.bytes().up > 0 ? "ended" : reason);
    refuse(response, reason, authorityText({ host: shown.host, port: shown.port || undefined }));
  }
}

function refuse(response: ServerResponse, reason: Unreached["reason"], what: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, headers, body } = refusalAnswer(reason, what);
  // What is left of the request is not read, so the connection cannot be used again.
  response.writeHead(status, headers).end(body);
}

/** `http://host/path` to the proxy, `/path` in a tunnel. */
function askedFor(request: IncomingMessage, tunnelTo: Target | undefined): Asked | undefined {
  const { url = "" } = request;
  if (tunnelTo !== undefined) return url.startsWith("/") ? { target: tunnelTo, path: url } : undefined;
  const [, written, path] = /^http:\/\/([^/?#]+)(.*)$/i.exec(url) ?? [];
  const authority = written === undefined ? undefined : parseAuthority(written);
  if (authority === undefined) return undefined;
  const { host, port = HTTP_PORT } = authority;
  return { target: { host, port }, path: path?.startsWith("/") ? path : `/${path ?? ""}` };
}

/** What is passed on is chunked anew, so nothing else may be done to it. */
function isFramed({ headersDistinct }: IncomingMessage): boolean {
  const codings = headersDistinct["transfer-encoding"] ?? ["chunked"];
  return codings.length === 1 && codings[0]?.trim().toLowerCase() === "chunked";
}

/** Exactly one Host header, and it is the target. */
function namesHost({ headersDistinct }: IncomingMessage, { host, port }: Target): boolean {
  const [only, ...more] = headersDistinct["host"] ?? [];
  const named = only === undefined || more.length > 0 ? undefined : parseAuthority(only);
  return named !== undefined && named.host === host && (named.port ?? HTTP_PORT) === port;
}

function shownHost({ url = "" }: IncomingMessage): string {
  return url.slice(0, 100);
}

async function exchangeWith(
  upstream: Socket,
  { target, path }: Asked,
  exchange: Exchange,
  idleMs: number,
): Promise<void> {
  const { request, response } = exchange;
  const headers = { ...passedOn(request), host: hostHeader(target), connection: "close" };
  if (request.headers["transfer-encoding"] !== undefined) Object.assign(headers, { "transfer-encoding": "chunked" });
  const options = { method: request.method ?? "GET", path, headers, setHost: false, createConnection: () => upstream };
  const asking = httpRequest(options);
  const answered = Promise.withResolvers<IncomingMessage>();
  asking.once("response", answered.resolve).once("error", answered.reject);
  upstream.setTimeout(idleMs, () => upstream.destroy(new Error("Nothing moved")));
  response.once("close", () => upstream.destroy());
  const sent = pipeline(request, asking);
  sent.catch(answered.reject);
  const answer = await answered.promise;
  response.writeHead(answer.statusCode ?? 502, passedOn(answer));
  await pipeline(answer, response);
}

function hostHeader({ host, port }: Target): string {
  return authorityText({ host, port: port === HTTP_PORT ? undefined : port });
}

function passedOn({ headers, headersDistinct }: IncomingMessage): Record<string, string[]> {
  const named = namedIn(headers);
  const entries = Object.entries(headersDistinct).flatMap(([name, values]) =>
    values === undefined || HOP_BY_HOP.has(name) || named.has(name) ? [] : [[name, values] as const],
  );
  return Object.fromEntries(entries);
}

/** What the Connection header says is hop-by-hop too. */
function namedIn({ connection = "" }: IncomingHttpHeaders): Set<string> {
  return new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
}
