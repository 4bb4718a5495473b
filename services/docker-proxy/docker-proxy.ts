// docker-proxy: the only process that has the Docker engine's socket. It reads each request whole, checks it, and makes a
// new one of what it understood; the provider on the other side can do to the engine what is in the lists of calls, to
// the objects of this install, and nothing else.
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createConnection } from "node:net";
import { dirname } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { installKey } from "#shared/docker/names.ts";
import { Fatal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { bodiesOf } from "./bodies.ts";
import { containerCalls } from "./containers/calls.ts";
import type { ContainerRules } from "./containers/create-body.ts";
import { openEngine } from "./engine/engine.ts";
import { refuse, refusedOf, refuseOn } from "./http/answers.ts";
import type { Call, Desk } from "./http/call.ts";
import { checkHeaders } from "./http/headers.ts";
import { forbidden, malformed, Refused } from "./http/refused.ts";
import { readTarget } from "./http/target.ts";
import { type ProxyLimits, proxyLimits } from "./limits.ts";
import { networkCalls } from "./networks/calls.ts";
import type { NetworkRules } from "./networks/create-body.ts";
import { systemCalls } from "./system/calls.ts";
import { volumeCalls } from "./volumes/calls.ts";

export type DockerProxyDependencies = Readonly<{
  installId: string;
  /** The engine's socket. */
  engineSocketPath: string;
  /** Where it listens. Who may open this socket may do what the calls allow. */
  socketPath: string;
  relay: ContainerRules["relay"];
  isInPool: NetworkRules["isInPool"];
  log: Log;
  limits?: Partial<ProxyLimits>;
}>;

export const calls: readonly Call[] = [...systemCalls, ...containerCalls, ...networkCalls, ...volumeCalls];

/** Resolves when it listens. Throws Fatal `docker_proxy_cannot_listen`. It starts without an engine too. */
export async function startDockerProxy(dependencies: DockerProxyDependencies): Promise<RunningService> {
  const { installId, engineSocketPath, socketPath, relay, isInPool, log } = dependencies;
  const limits: ProxyLimits = { ...proxyLimits, ...dependencies.limits };
  const key = installKey(installId);
  const bodies = bodiesOf({ key, relay, isInPool });
  const stopping = new AbortController();
  const engine = openEngine(engineSocketPath, limits);
  const desk: Desk = { engine, key, bodies, limits, log, stopping: stopping.signal };
  const server = newServer(desk);
  await listen(server, socketPath);
  log.info({ socketPath, engineSocketPath, key }, "docker-proxy listens");
  const close = () => {
    stopping.abort();
    return stop(server, limits.closeMs);
  };
  return { name: "docker-proxy", close };
}

function newServer(desk: Desk): Server {
  const { limits } = desk;
  const server = createServer({
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: 1_000,
    insecureHTTPParser: false,
    requireHostHeader: true,
    // One answer to each connection: what comes after a request is never read as another one.
    keepAlive: false,
  });
  server.maxConnections = limits.connectionsMax;
  server.maxRequestsPerSocket = 1;
  server.on("request", (request, response) => {
    answerRequest(desk, request, response).catch((error: unknown) => fail(desk, request, response, error));
  });
  const odd = (rule: string, message: string) => (request: IncomingMessage, socket: Duplex) => {
    socket.on("error", (error) => desk.log.debug({ reason: error.message }, "A connection failed"));
    refuseOn(socket, noted(desk, request, forbidden(rule, message)));
  };
  server.on("upgrade", odd("upgrade_refused", "No connection becomes another protocol here"));
  server.on("connect", odd("connect_refused", "This is no tunnel"));
  const expecting = (request: IncomingMessage, response: ServerResponse) =>
    fail(desk, request, response, new Refused(417, "header_refused", "The header expect is not taken here"));
  server.on("checkContinue", expecting).on("checkExpectation", expecting);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => unreadable(desk, error, socket));
  return server;
}

async function answerRequest(desk: Desk, request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.on("error", (error) => desk.log.debug({ reason: error.message }, "A caller went away"));
  checkHeaders(request);
  const { path, query } = readTarget(request.url ?? "", desk.limits.targetCharactersMax);
  const found = calls.find((call) => call.method === request.method && call.path.test(path));
  if (found === undefined) throw forbidden("call_refused", `${request.method} ${path} is no call of the provider`);
  const name = found.path.exec(path)?.[1] ?? "";
  await found.handle(desk, { request, response, name, query });
  // An event stream is not at its end here; it has a watch of its own.
  if (response.writableEnded) request.socket.setTimeout(desk.limits.stuckMs, () => request.socket.destroy());
}

function fail(desk: Desk, request: IncomingMessage, response: ServerResponse, error: unknown): void {
  const refused = noted(desk, request, error);
  if (response.headersSent) response.destroy();
  else refuse(response, refused);
  // What is left of the body is thrown away with the connection.
  request.resume();
}

/** What the engine itself refuses is an ordinary answer; everything else is worth a line. */
function noted({ log }: Desk, { method, url = "" }: IncomingMessage, error: unknown): Refused {
  const refused = refusedOf(error);
  const fields = { method, url: url.slice(0, 300), rule: refused.rule, reason: refused.message };
  if (refused.status === 500) log.error({ ...fields, error: String(refused.cause) }, "docker-proxy failed");
  else if (refused.rule !== "engine") log.warn(fields, "Refused a call");
  return refused;
}

const UNREADABLE: Readonly<Record<string, Refused>> = {
  HPE_HEADER_OVERFLOW: new Refused(431, "headers_too_large", "The headers are too large"),
  ERR_HTTP_REQUEST_TIMEOUT: new Refused(408, "request_slow", "The request did not come in time"),
};

function unreadable({ log }: Desk, { code = "" }: NodeJS.ErrnoException, socket: Duplex): void {
  const refused = UNREADABLE[code] ?? malformed("request_unclear", "This is no plain HTTP/1.1 request");
  log.warn({ rule: refused.rule, reason: code }, "Refused a call");
  if (socket.writable) refuseOn(socket, refused);
  else socket.destroy();
}

async function listen(server: Server, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  if (!(await isAnswering(path))) await rm(path, { force: true });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", (cause) => {
    const next = "Choose another PISTIS_DOCKER_PROXY_SOCKET, in a folder that exists, or stop what listens there";
    reject(new Fatal("docker_proxy_cannot_listen", `docker-proxy cannot listen on ${path}`, { cause, next }));
  });
  server.listen({ path }, resolve);
  await promise;
  await chmod(path, 0o660);
}

/** A socket file that nobody listens on was left by a process that was killed. */
function isAnswering(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = createConnection(path);
  socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  return promise.finally(() => socket.destroy());
}

/** Takes no new call and finishes those in hand, for `closeMs` at most. */
async function stop(server: Server, closeMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const patience = new AbortController();
  const late = wait(closeMs, undefined, { signal: patience.signal }).then(() => server.closeAllConnections());
  await promise.finally(() => patience.abort());
  await Promise.allSettled([late]);
}
