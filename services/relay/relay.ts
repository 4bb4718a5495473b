// The relay: sandbox and server both dial out to it, and it passes their frames on unread.
import { mkdir } from "node:fs/promises";
import type { Server } from "node:http";
import { dirname } from "node:path";
import { type Duplex, duplexPair } from "node:stream";
import { Fatal } from "#shared/errors/errors.ts";
import type { Log } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import type { RunningService } from "#shared/service/service.ts";
import { type EgressPipes, type EgressService, openEgressPipes } from "./egress/egress-pipes.ts";
import { openEndpoints, type RelayParts } from "./http/endpoints.ts";
import { closeServer, listen, newServer } from "./http/listening.ts";
import {
  noSandboxSockets,
  openSandboxSockets,
  type SandboxSockets,
  type SocketOwners,
} from "./http/sandbox-sockets.ts";
import { type JoinReport, openJoinReports } from "./join-reports.ts";
import { checkLives, closeRooms, openRooms, type Rooms } from "./legs/rooms.ts";
import { type RelayLimits, relayLimits } from "./limits.ts";
import { openPasses } from "./passes/passes.ts";

export type RelayDependencies = Readonly<{
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** Holds a socket for each sandbox that has no network; only what a sandbox needs answers there. */
  socketFolder?: string;
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

export type Relay = RunningService &
  Readonly<{
    url: string;
    /** A connection from this very process, as good as one to the port: with all of HTTP, and no socket in between. */
    connect: () => Duplex;
  }>;

/** Resolves when the relay listens. Throws Fatal for a state file, key or address that cannot be used. */
export async function startRelay(dependencies: RelayDependencies): Promise<Relay> {
  const { host, port, adminKey, stateFile, reportJoined, log, now = Date.now } = dependencies;
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
    const owners: SocketOwners = new WeakMap();
    const parts = { adminKey, passes, rooms, egress, reports, limits, owners, now, log };
    const sockets = await openSockets(dependencies.socketFolder, parts);
    const tcp = newServer(openEndpoints({ ...parts, sockets }, "everything"), limits, limits.unprovenConnectionsMax);
    resources.add("connections", tcp, (server) => stop(server, { sockets, egress, rooms }));
    await Promise.all(passes.list().map(({ sandboxId }) => sockets.open(sandboxId)));
    await listen(tcp, { host, port });
    const url = urlOf(tcp, host);
    log.info({ url, sockets: dependencies.socketFolder }, "The relay listens");
    return { name: "relay", url, connect: () => connectWithin(tcp), close: () => resources.close() };
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

function connectWithin(server: Server): Duplex {
  const [near, far] = duplexPair();
  if (server.listening) server.emit("connection", far);
  else near.destroy(new Error("The relay is closed"));
  return near;
}

function urlOf(server: Server, host: string): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Fatal("relay_cannot_listen", "The relay has no port");
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

/** Takes no new connection, then says goodbye on those that are open. */
async function stop(
  server: Server,
  { sockets, egress, rooms }: { sockets: SandboxSockets; egress: EgressPipes; rooms: Rooms },
): Promise<void> {
  const closed = [sockets.closeAll(), ...(server.listening ? [closeServer(server)] : [])];
  egress.close();
  await closeRooms(rooms);
  await Promise.all(closed);
}

async function openSockets(folder: string | undefined, parts: Omit<RelayParts, "sockets">): Promise<SandboxSockets> {
  if (folder === undefined) return noSandboxSockets();
  // Through these no token is registered, so no socket is opened.
  const endpoints = openEndpoints({ ...parts, sockets: noSandboxSockets() }, "sandboxes-only");
  return openSandboxSockets({ folder, endpoints, limits: parts.limits, owners: parts.owners, log: parts.log });
}
