// A forward proxy on connections that the pipe hands over. The HTTP parser is Node's own, at its strictest: it refuses
// two lengths, a length beside chunks, folded headers and bare line ends.
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import { parseAuthority } from "#schemas/network/authority.ts";
import type { Client } from "../pipe/pipe.ts";
import type { Target } from "../policy/policy.ts";
import { forward } from "./forward.ts";
import type { ProxyParts } from "./parts.ts";
import { refusalBytes } from "./refusal.ts";
import { openTunnel } from "./tunnel.ts";

/** Requests of a connection that wait for the answer to an earlier one. */
const PIPELINED_MAX = 16;

export type Proxy = Readonly<{ onConnection: (socket: Socket, client: Client) => void }>;

type Known = Readonly<{ client: Client; tunnelTo: Target | undefined }>;
type Turn = { waiting: number; last: Promise<void> };
type Desk = ProxyParts & {
  known: WeakMap<object, Known>;
  turns: WeakMap<Socket, Turn>;
  open: Map<string, number>;
  headDeadlines: Deadlines;
  http: () => Server;
};

export function openProxy(parts: ProxyParts): Proxy {
  const server = newServer(parts);
  const headDeadlines = openDeadlines(parts.limits.headMs);
  const desk: Desk = {
    ...parts,
    known: new WeakMap(),
    turns: new WeakMap(),
    open: new Map(),
    headDeadlines,
    http: () => server,
  };
  server.on("request", (request, response) => {
    const known = desk.known.get(request.socket);
    desk.headDeadlines.stop(request.socket);
    response.once("finish", () => {
      if (isLast(desk, request.socket)) desk.headDeadlines.start(request.socket);
    });
    if (known === undefined) response.destroy();
    else inTurn(desk, request.socket, () => forward(desk, { ...known, request, response }));
  });
  server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) =>
    onConnect(desk, request, { socket, head }),
  );
  server.on("clientError", (error, socket) => onMalformed(desk, socket, error));
  return { onConnection: (socket, client) => admit(desk, socket, client) };
}

type Deadlines = Readonly<{ start: (socket: Socket) => void; stop: (socket: Socket) => void }>;

/** Cuts a connection whose next request is not there in time, whether it is silent or slow. */
function openDeadlines(timeMs: number): Deadlines {
  const timers = new WeakMap<Socket, NodeJS.Timeout>();
  const stop = (socket: Socket) => clearTimeout(timers.get(socket));
  return {
    stop,
    start: (socket) => {
      if (!timers.has(socket)) socket.once("close", () => stop(socket));
      stop(socket);
      timers.set(
        socket,
        setTimeout(() => socket.destroy(), timeMs),
      );
    },
  };
}

function newServer({ limits }: ProxyParts): Server {
  return createServer({
    maxHeaderSize: limits.headBytesMax,
    // It never listens, so it checks no times: `awaitHead` does.
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
    insecureHTTPParser: false,
    requireHostHeader: false,
  });
}

/** Requests that were sent without waiting for answers are answered one by one: each takes a connection of its own. */
function inTurn({ turns }: Desk, socket: Socket, answer: () => Promise<void>): void {
  const turn = turns.get(socket) ?? { waiting: 0, last: Promise.resolve() };
  turns.set(socket, turn);
  if (turn.waiting >= PIPELINED_MAX) {
    socket.destroy();
    return;
  }
  turn.waiting += 1;
  turn.last = turn.last.then(async () => {
    if (!socket.destroyed) await answer();
    turn.waiting -= 1;
  });
}

/** Whether no request waits behind the one that is being answered: then the next one has to come. */
function isLast({ turns }: Desk, socket: Socket): boolean {
  return (turns.get(socket)?.waiting ?? 0) <= 1;
}

/** A sandbox that opens too many is refused; those of others are not touched. */
function admit(desk: Desk, socket: Socket, client: Client): void {
  const { open, journal, limits } = desk;
  const count = open.get(client.sandboxId) ?? 0;
  if (count >= limits.connectionsPerSandboxMax) {
    journal.end(journal.begin(client, { host: "", port: 0, via: "http" }), "too_many_connections");
    socket.end(refusalBytes("too_many_connections", "a connection"), () => socket.destroySoon());
    return;
  }
  open.set(client.sandboxId, count + 1);
  socket.once("close", () => {
    const left = (open.get(client.sandboxId) ?? 1) - 1;
    if (left > 0) open.set(client.sandboxId, left);
    else open.delete(client.sandboxId);
  });
  socket.setTimeout(limits.idleMs, () => socket.destroy());
  serve(desk, socket, { client, tunnelTo: undefined });
}

function serve(desk: Desk, socket: Socket, known: Known): void {
  desk.known.set(socket, known);
  desk.headDeadlines.start(socket);
  desk.http().emit("connection", socket);
}

function onConnect(desk: Desk, request: IncomingMessage, { socket, head }: { socket: Socket; head: Buffer }): void {
  const known = desk.known.get(socket);
  desk.headDeadlines.stop(socket);
  if (known === undefined) {
    socket.destroy();
    return;
  }
  const { client } = known;
  const authority = parseAuthority(request.url ?? "");
  // A tunnel in a tunnel would be a way around the one host that this one is for.
  const target = known.tunnelTo === undefined && authority?.port !== undefined ? authority : undefined;
  const shown = { host: authority?.host ?? (request.url ?? "").slice(0, 100), port: authority?.port ?? 0 };
  const entry = desk.journal.begin(client, { ...shown, via: "connect" });
  if (target?.port === undefined) {
    desk.journal.end(entry, "request_malformed");
    socket.end(refusalBytes("request_malformed", shown.host), () => socket.destroySoon());
    return;
  }
  const tunnelTo = { host: target.host, port: target.port };
  if (head.byteLength > 0) socket.unshift(head);
  const serveHttp = (bytes: Buffer) => {
    socket.unshift(bytes);
    serve(desk, socket, { client, tunnelTo });
    socket.resume();
  };
  void openTunnel(desk, { client, socket, target: tunnelTo, entry, serveHttp });
}

/** Also called for a connection that breaks, which is no request. */
function onMalformed(desk: Desk, socket: unknown, error: NodeJS.ErrnoException): void {
  if (!isSocket(socket)) return;
  const known = desk.known.get(socket);
  if (known !== undefined && socket.writable && /^(HPE_|ERR_HTTP_)/.test(error.code ?? "")) {
    const { journal } = desk;
    const shown = known.tunnelTo ?? { host: "", port: 0 };
    journal.end(journal.begin(known.client, { ...shown, via: "http" }), "request_malformed");
    socket.end(refusalBytes("request_malformed", "a request"), () => socket.destroySoon());
  } else socket.destroy();
}

function isSocket(value: unknown): value is Socket {
  return typeof value === "object" && value !== null && "destroySoon" in value;
}
