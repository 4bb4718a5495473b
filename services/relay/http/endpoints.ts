// The relay's endpoints as one table. A sandbox that reaches the relay through a Unix socket gets only
// those that are open to sandboxes; the rest does not exist there, whatever key comes with the request.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { z } from "zod";
import { FRAME_BYTES_MAX, SUBPROTOCOL } from "#schemas/wire/frame.ts";
import { BOOT_ID_HEADER, CloseCode, EGRESS_PROTOCOL, joinTokenRegistration } from "#schemas/wire/relay-http.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Log } from "#shared/service/log.ts";
import type { EgressPipes } from "../egress/egress-pipes.ts";
import type { JoinReports } from "../join-reports.ts";
import {
  closeRoom,
  enterPeer,
  enterSandbox,
  expelSandbox,
  hasRoomForPeer,
  type Rooms,
  statusOf,
} from "../legs/rooms.ts";
import type { RelayLimits } from "../limits.ts";
import type { Passes } from "../passes/passes.ts";
import type { SandboxRecord } from "../passes/state-file.ts";
import { bearerOf, keyCheck, perMinute } from "./access.ts";
import { answer, HttpError, httpErrorOf, notFound, readJson, refuseUpgrade, tooMany, unauthorized } from "./answers.ts";
import type { SandboxSockets, SocketOwners } from "./sandbox-sockets.ts";

export type RelayParts = Readonly<{
  adminKey: string;
  passes: Passes;
  rooms: Rooms;
  egress: EgressPipes;
  reports: JoinReports;
  sockets: SandboxSockets;
  owners: SocketOwners;
  limits: RelayLimits;
  now: () => number;
  log: Log;
}>;

type Desk = RelayParts & {
  isAdmin: (request: IncomingMessage) => boolean;
  mayFail: (source: string) => boolean;
  mayConnect: (sandboxId: string) => boolean;
  mayEgress: (sandboxId: string) => boolean;
  webSockets: WebSocketServer;
};

type Exchange = { request: IncomingMessage; response: ServerResponse; id: string };
type Upgrade = { request: IncomingMessage; socket: Duplex; head: Buffer; id: string };

type Route = Readonly<{
  method: "GET" | "POST" | "DELETE";
  path: RegExp;
  by: "anyone" | "admin" | "sandbox";
  handle?: (desk: Desk, exchange: Exchange) => Promise<void> | void;
  upgrade?: (desk: Desk, upgrade: Upgrade) => void;
  /** What it upgrades to, if not to a WebSocket. */
  protocol?: typeof EGRESS_PROTOCOL;
}>;

const routes: readonly Route[] = [
  { method: "GET", path: /^\/healthz$/, by: "anyone", handle: health },
  { method: "POST", path: /^\/v1\/join-tokens$/, by: "admin", handle: registerToken },
  { method: "POST", path: /^\/v1\/join$/, by: "sandbox", handle: join },
  { method: "GET", path: /^\/v1\/connect$/, by: "sandbox", upgrade: connect },
  { method: "GET", path: /^\/v1\/egress$/, by: "sandbox", upgrade: egress, protocol: EGRESS_PROTOCOL },
  { method: "GET", path: /^\/v1\/sandboxes$/, by: "admin", handle: listSandboxes },
  { method: "GET", path: /^\/v1\/sandboxes\/(sbx_[0-9a-z]{1,64})$/, by: "admin", handle: showSandbox },
  { method: "DELETE", path: /^\/v1\/sandboxes\/(sbx_[0-9a-z]{1,64})$/, by: "admin", handle: deleteSandbox },
  { method: "GET", path: /^\/v1\/sandboxes\/(sbx_[0-9a-z]{1,64})\/attach$/, by: "admin", upgrade: attach },
];

export type Endpoints = Readonly<{
  onRequest: (request: IncomingMessage, response: ServerResponse) => void;
  onUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}>;

/** What answers on the TCP port (`everything`) or on the Unix socket (`sandboxes-only`). */
export function openEndpoints(parts: RelayParts, offer: "everything" | "sandboxes-only"): Endpoints {
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: FRAME_BYTES_MAX,
    maxFragments: 64,
    maxBufferedChunks: 4_096,
    perMessageDeflate: false,
    autoPong: false,
    handleProtocols: () => SUBPROTOCOL,
  });
  const desk: Desk = {
    ...parts,
    isAdmin: keyCheck(parts.adminKey),
    mayFail: perMinute(parts.limits.badKeysPerMinuteMax, parts.now),
    mayConnect: perMinute(parts.limits.connectsPerMinuteMax, parts.now),
    mayEgress: perMinute(parts.limits.egressPerMinuteMax, parts.now),
    webSockets,
  };
  const offered = routes.filter((route) => offer === "everything" || route.by !== "admin");
  return {
    onRequest: (request, response) => {
      answerRequest(desk, offered, { request, response }).catch((error: unknown) =>
        fail(desk, request, response, error),
      );
    },
    onUpgrade: (request, socket, head) => {
      socket.on("error", (error) => desk.log.debug({ reason: error.message }, "A connection failed"));
      try {
        answerUpgrade(desk, offered, { request, socket, head });
      } catch (error) {
        refuseUpgrade(socket, note(desk, request, error));
      }
    },
  };
}

async function answerRequest(desk: Desk, offered: readonly Route[], exchange: Omit<Exchange, "id">): Promise<void> {
  const { route, id } = find(desk, offered, exchange.request);
  if (route.handle === undefined) {
    throw new HttpError(426, { code: "upgrade_required", message: "This endpoint is a WebSocket" });
  }
  await route.handle(desk, { ...exchange, id });
}

function answerUpgrade(desk: Desk, offered: readonly Route[], upgrade: Omit<Upgrade, "id">): void {
  const { route, id } = find(desk, offered, upgrade.request);
  const wanted = route.protocol ?? SUBPROTOCOL;
  if (route.upgrade === undefined || !asksFor(upgrade.request, wanted)) {
    throw new HttpError(400, { code: "bad_request", message: `Here is no upgrade to ${wanted}` });
  }
  route.upgrade(desk, { ...upgrade, id });
}

/** The egress protocol is asked for by name, any other as the subprotocol of a WebSocket. */
function asksFor({ headers }: IncomingMessage, protocol: string): boolean {
  if (protocol === EGRESS_PROTOCOL) return headers.upgrade?.toLowerCase() === protocol;
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  return headers.upgrade?.toLowerCase() === "websocket" && offered.includes(protocol);
}

/** The route of a request that may use it. Who shows no valid key does not learn which paths exist. */
function find(desk: Desk, offered: readonly Route[], request: IncomingMessage): { route: Route; id: string } {
  const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
  const route = offered.find((one) => one.path.test(path) && one.method === request.method);
  if (route?.by === "anyone") return { route, id: "" };
  if (route?.by === "sandbox") {
    if (!isPass(desk, route, request)) throw unauthorized();
    return { route, id: "" };
  }
  if (offered.every((one) => one.by !== "admin")) throw notFound();
  if (!desk.isAdmin(request)) throw unauthorized();
  if (route === undefined) throw notFound();
  return { route, id: route.path.exec(path)?.[1] ?? "" };
}

/** A join token is looked at by its own endpoint; everything else of a sandbox needs its pass. */
function isPass(desk: Desk, route: Route, request: IncomingMessage): boolean {
  if (route.handle === join) return bearerOf(request) !== undefined;
  return holderOf(desk, request) !== undefined;
}

/** The sandbox whose pass the request shows. Through another sandbox's socket it is worth nothing. */
function holderOf({ passes, owners }: Desk, request: IncomingMessage): Readonly<SandboxRecord> | undefined {
  const sandbox = passes.holderOf(bearerOf(request) ?? "");
  const owner = owners.get(request.socket);
  return owner === undefined || sandbox?.sandboxId === owner ? sandbox : undefined;
}

function fail(desk: Desk, request: IncomingMessage, response: ServerResponse, error: unknown): void {
  const { status, failure } = note(desk, request, error);
  if (response.headersSent) return;
  // What is left of the request is not read, so the connection cannot be used again.
  response.setHeader("connection", "close");
  answer(response, status, failure);
}

/** Who shows wrong keys again and again is only told to wait; a valid key always works. */
function note(desk: Desk, request: IncomingMessage, error: unknown): HttpError {
  const httpError = httpErrorOf(error);
  const { status, failure } = httpError;
  if (status >= 500) desk.log.error({ code: failure.code, reason: String(error) }, "A request to the relay failed");
  if (status !== 401) return httpError;
  if (!desk.mayFail(request.socket.remoteAddress ?? "unix")) return tooMany();
  desk.log.warn({ code: failure.code, from: request.socket.remoteAddress ?? "unix" }, "Refused a wrong key or token");
  return httpError;
}

function health(_desk: Desk, { response }: Exchange): void {
  answer(response, 200, { status: "ok" });
}

async function registerToken({ passes, sockets, limits }: Desk, { request, response }: Exchange): Promise<void> {
  const parsed = joinTokenRegistration.safeParse(await readJson(request, limits.bodyBytesMax));
  if (!parsed.success) {
    throw new HttpError(400, { code: "bad_request", message: z.prettifyError(parsed.error).slice(0, 1_000) });
  }
  step("relay.token.registering");
  await passes.register(parsed.data);
  step("relay.token.stored");
  await sockets.open(parsed.data.sandboxId);
  step("relay.token.registered");
  answer(response, 204);
}

async function join(
  { passes, rooms, owners, egress: pipes, log }: Desk,
  { request, response }: Exchange,
): Promise<void> {
  step("relay.join.burning");
  const token = bearerOf(request) ?? "";
  const { sandboxId, pass, generation } = await passes
    .trade(token, owners.get(request.socket))
    .catch((error: unknown) => {
      throw error instanceof Refusal
        ? new HttpError(401, { code: error.code, message: error.message, ...(error.next ? { next: error.next } : {}) })
        : error;
    });
  step("relay.join.burnt");
  expelSandbox(rooms, sandboxId, CloseCode.replaced);
  pipes.cut(sandboxId);
  log.info({ sandboxId, generation }, "A sandbox traded its join token for a pass");
  answer(response, 200, { sandboxId, pass });
}

function listSandboxes({ passes, rooms }: Desk, { response }: Exchange): void {
  const sandboxes = passes.list().map(({ sandboxId, generation }) => ({
    sandboxId,
    ...statusOf(rooms, sandboxId, generation),
  }));
  answer(response, 200, { sandboxes });
}

function showSandbox({ passes, rooms }: Desk, { response, id }: Exchange): void {
  const sandbox = passes.find(id);
  if (sandbox === undefined) throw unknownSandbox(id);
  answer(response, 200, statusOf(rooms, id, sandbox.generation));
}

async function deleteSandbox(
  { passes, rooms, sockets, egress: pipes, log }: Desk,
  { response, id }: Exchange,
): Promise<void> {
  step("relay.passes.revoking");
  const revoked = passes.revoke(id);
  closeRoom(rooms, id);
  pipes.cut(id);
  sockets.close(id);
  await revoked;
  step("relay.passes.revoked");
  log.info({ sandboxId: id }, "A sandbox's tokens and pass were revoked");
  answer(response, 204);
}

const bootIdShape = z.string().regex(/^[\w.-]{1,100}$/);

function connect(desk: Desk, { request, socket, head }: Upgrade): void {
  const sandbox = holderOf(desk, request);
  const bootId = bootIdShape.safeParse(request.headers[BOOT_ID_HEADER]);
  if (sandbox?.pass == null) throw unauthorized();
  if (!bootId.success) throw new HttpError(400, { code: "bad_request", message: `${BOOT_ID_HEADER} is missing` });
  if (!desk.mayConnect(sandbox.sandboxId)) throw tooMany();
  const { sandboxId, reportedBootId } = sandbox;
  const { generation } = sandbox.pass;
  desk.webSockets.handleUpgrade(request, socket, head, (ws) => {
    enterSandbox(desk.rooms, { ws, socket, sandboxId, generation, bootId: bootId.data });
    if (reportedBootId !== bootId.data) {
      desk.reports.tell({ kind: "joined", sandboxId, generation, bootId: bootId.data });
    }
  });
}

function egress(desk: Desk, { request, socket, head }: Upgrade): void {
  const sandbox = holderOf(desk, request);
  if (sandbox?.pass == null || !(socket instanceof Socket)) throw unauthorized();
  const { sandboxId, pass } = sandbox;
  if (!desk.mayEgress(sandboxId)) throw tooMany();
  desk.egress.open({ socket, head, sandboxId, generation: pass.generation });
}

function attach(desk: Desk, { request, socket, head, id }: Upgrade): void {
  const sandbox = desk.passes.find(id);
  if (sandbox === undefined) throw unknownSandbox(id);
  if (!hasRoomForPeer(desk.rooms, id)) {
    throw new HttpError(429, { code: "too_many_peers", message: `${id} has too many server-side peers` });
  }
  desk.webSockets.handleUpgrade(request, socket, head, (ws) =>
    enterPeer(desk.rooms, { ws, socket, sandboxId: id, generation: sandbox.generation }),
  );
}

function unknownSandbox(id: string): HttpError {
  return new HttpError(404, { code: "sandbox_unknown", message: `No token was registered for ${id}` });
}
