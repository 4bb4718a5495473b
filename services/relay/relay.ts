// The relay: sandbox and server both dial out to it, and it passes their frames on unread.
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createConnection } from "node:net";
import { dirname } from "node:path";
import { Fatal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService } from "#shared/service/service.ts";
import { type EgressPipes, type EgressService, openEgressPipes } from "./egress/egress-pipes.ts";
import { type Endpoints, openEndpoints, type RelayParts } from "./http/endpoints.ts";
import { boundUnproven } from "./http/unproven.ts";
import { type JoinReport, openJoinReports } from "./join-reports.ts";
import { checkLives, closeRooms, openRooms, type Rooms } from "./legs/rooms.ts";
import { type RelayLimits, relayLimits } from "./limits.ts";
import { openPasses } from "./passes/passes.ts";

export type RelayDependencies = Readonly<{
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** Also listens here, for sandboxes without a network; only what a sandbox needs answers there. */
  socketPath?: string;
  /** `PISTIS_RELAY_KEY` */
  adminKey: string;
  stateFile: string;
  /** The way out of sandboxes; without it there is none. */
  egress?: EgressService;
  /** Called until it resolves, once for each start of pistisd in a sandbox (and again if that could not be noted). */
  reportJoined: (report: JoinReport) => Promise<void>;
  log: Log;
  limits?: Partial<RelayLimits>;
  /** Milliseconds since the epoch; tests set it forward. */
  now?: () => number;
}>;

const ADMIN_KEY_LENGTH_MIN = 16;
const SOCKET_PATH_BYTES_MAX = 107;

/** Resolves when the relay listens. Throws Fatal for a state file, key or address that cannot be used. */
export async function startRelay(dependencies: RelayDependencies): Promise<RunningService & { url: string }> {
  const { host, port, socketPath, adminKey, stateFile, reportJoined, log, now = Date.now } = dependencies;
  if (adminKey.length < ADMIN_KEY_LENGTH_MIN) throw weakKey();
  const limits: RelayLimits = { ...relayLimits, ...dependencies.limits };
  const resources = new Resources();
  try {
    await mkdir(dirname(stateFile), { recursive: true, mode: 0o700 });
    const passes = await openPasses({ stateFile, limits, now });
    const reported = ({ sandboxId, bootId }: JoinReport) => passes.noteReported(sandboxId, bootId);
    const reporting = openJoinReports({ report: reportJoined, reported, log });
    const reports = resources.add("join reports", reporting, (opened) => opened.close());
    const rooms = resources.add("connections", openRooms(limits, log), closeRooms);
    resources.add(
      "pings",
      setInterval(() => checkLives(rooms), limits.pingMs),
      clearInterval,
    );
    const egress = openEgressPipes({ egress: dependencies.egress, limits, log });
    const parts: RelayParts = { adminKey, passes, rooms, egress, reports, limits, now, log };
    const tcp = newServer(openEndpoints(parts, "everything"), limits);
    const unix = newServer(openEndpoints(parts, "sandboxes-only"), limits);
    resources.add("connections", [tcp, unix], (servers) => stop(servers, egress, rooms));
    await listen(tcp, { host, port });
    if (socketPath !== undefined) await listenUnix(unix, socketPath);
    const url = urlOf(tcp, host);
    log.info({ url, socketPath }, "The relay listens");
    return { name: "relay", url, close: () => resources.close() };
  } catch (error) {
    await resources.close();
    throw error;
  }
}

function weakKey(): Fatal {
  return new Fatal("relay_key_weak", `The relay's admin key has less than ${ADMIN_KEY_LENGTH_MIN} characters`, {
    next: "Set PISTIS_RELAY_KEY to a long random text, for example from `openssl rand -base64 32`.",
  });
}

function newServer({ onRequest, onUpgrade }: Endpoints, limits: RelayLimits): Server {
  const server = createServer({
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: 5_000,
    requestTimeout: 10_000,
    keepAliveTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
    noDelay: true,
  });
  server.on("request", onRequest);
  const prove = boundUnproven(server, limits.unprovenConnectionsMax);
  server.on("upgrade", (request, socket, head) => {
    prove(request.socket);
    onUpgrade(request, socket, head);
  });
  return server;
}

function listen(server: Server, where: { host: string; port: number } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: Error) =>
      reject(
        new Fatal("relay_cannot_listen", `The relay cannot listen: ${cause.message}`, {
          cause,
          next: "Choose another port, or stop what already listens there.",
        }),
      );
    server.once("error", failed);
    server.listen(where, () => {
      server.off("error", failed);
      resolve();
    });
  });
}

/** Every sandbox on the machine may connect, as another user too: the mount decides which see the socket. */
async function listenUnix(server: Server, path: string): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new Fatal("relay_socket_path_long", `The socket path ${path} has over ${SOCKET_PATH_BYTES_MAX} bytes`, {
      next: "Choose a state directory with a shorter path.",
    });
  }
  await mkdir(dirname(path), { recursive: true });
  if (!(await isAnswering(path))) await rm(path, { force: true });
  await listen(server, { path });
  await chmod(path, 0o666);
}

/** A socket file that nobody listens on was left by a relay that was killed. */
function isAnswering(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    const done = (answering: boolean) => {
      socket.destroy();
      resolve(answering);
    };
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
}

function urlOf(server: Server, host: string): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Fatal("relay_cannot_listen", "The relay has no port");
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

/** Takes no new connection, then says goodbye on those that are open. */
async function stop(servers: Server[], egress: EgressPipes, rooms: Rooms): Promise<void> {
  const closed = servers.filter((server) => server.listening).map(closeServer);
  egress.close();
  await closeRooms(rooms);
  await Promise.all(closed);
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
