// Each sandbox has a Unix socket of its own at the relay. Whoever floods it shuts out nobody but itself: for a while nobody
// listens there, which costs the relay nothing. And what comes through it is known to be that sandbox's, so the pass of
// another one is worth nothing there.
import type { Dirent } from "node:fs";
import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import type { RelayLimits } from "../limits.ts";
import type { Endpoints } from "./endpoints.ts";
import { closeServer, isAnswering, listenUnix, newServer } from "./listening.ts";

/** A sandbox finds its own socket in it and cannot list it: not even one that runs as the relay's own user. */
const FOLDER_MODE = 0o311;
/** `sun_path` of Linux, without its end. */
const SOCKET_PATH_BYTES_MAX = 107;

export type SandboxSockets = Readonly<{
  /** Resolves when the sandbox's socket is listened on. */
  open: (sandboxId: string) => Promise<void>;
  /** Ends what came through it and is no WebSocket. */
  close: (sandboxId: string) => void;
  closeAll: () => Promise<void>;
}>;

/** The sandbox whose socket a connection came through; nothing for one of the port. */
export type SocketOwners = WeakMap<Socket, string>;

type Place = Readonly<{
  folder: string;
  endpoints: Endpoints;
  limits: RelayLimits;
  owners: SocketOwners;
  log: Log;
}>;

type Entrance = {
  readonly sandboxId: string;
  readonly path: string;
  readonly server: Server;
  readonly opened: Promise<void>;
  isClosed: boolean;
  /** How many more may connect at once, as of `refilledAtMs`. */
  left: number;
  refilledAtMs: number;
};

/** Where there is no folder no sandbox has a socket. */
export function noSandboxSockets(): SandboxSockets {
  return { open: async () => undefined, close: () => undefined, closeAll: async () => undefined };
}

/**
 * Makes the folder ready and opens no socket yet. Throws Fatal `relay_socket_path_long` when the kernel cannot hold the
 * paths, `relay_cannot_listen` when another relay uses the folder, `relay_sockets_folder` when it is not the relay's alone.
 */
export async function openSandboxSockets(place: Place): Promise<SandboxSockets> {
  const longest = socketPath(place.folder, newId("sandbox"));
  if (Buffer.byteLength(longest) > SOCKET_PATH_BYTES_MAX) throw tooLong(place.folder, longest);
  await clean(place.folder);
  const entrances = new Map<string, Entrance>();
  return {
    open: async (sandboxId) => {
      const entrance = entrances.get(sandboxId) ?? newEntrance(place, sandboxId);
      entrances.set(sandboxId, entrance);
      await entrance.opened.catch((error: unknown) => {
        if (entrances.get(sandboxId) === entrance) entrances.delete(sandboxId);
        throw error;
      });
    },
    close: (sandboxId) => {
      const entrance = entrances.get(sandboxId);
      entrances.delete(sandboxId);
      if (entrance !== undefined) void closed(entrance);
    },
    closeAll: async () => {
      const all = [...entrances.values()];
      entrances.clear();
      await Promise.all(all.map(closed));
    },
  };
}

export function socketPath(folder: string, sandboxId: string): string {
  return join(folder, relaySocketName(sandboxId));
}

function tooLong(folder: string, longest: string): Fatal {
  const bytes = Buffer.byteLength(longest);
  return new Fatal("relay_socket_path_long", `A socket in ${folder} would have a path of ${bytes} bytes`, {
    next: "Choose a state directory, or a PISTIS_RELAY_SOCKETS, with a shorter path.",
  });
}

/** A relay that was killed leaves its sockets behind. A folder with anything else in it is not touched. */
async function clean(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => listedByOwner(folder));
  if (!entries.every((entry) => entry.isSocket())) throw notAlone(folder);
  for (const { name } of entries) {
    const path = join(folder, name);
    if (await isAnswering(path)) throw taken(folder);
    await rm(path, { force: true });
  }
  await chmod(folder, FOLDER_MODE);
}

/** As a user who is not root the relay cannot list what it has closed to listing itself. */
async function listedByOwner(folder: string): Promise<Dirent[]> {
  try {
    await chmod(folder, 0o700);
    return await readdir(folder, { withFileTypes: true });
  } catch (cause) {
    throw unfit(`${folder} is not the relay's own folder`, cause);
  }
}

function notAlone(folder: string): Fatal {
  return unfit(`${folder} holds other things than the sockets of sandboxes`);
}

function unfit(message: string, cause?: unknown): Fatal {
  return new Fatal("relay_sockets_folder", message, {
    cause,
    next: "Give the relay a folder of its own with PISTIS_RELAY_SOCKETS.",
  });
}

function taken(folder: string): Fatal {
  return new Fatal("relay_cannot_listen", `Another relay listens in ${folder}`, {
    next: "Stop the other relay, or give this one a folder of its own with PISTIS_RELAY_SOCKETS.",
  });
}

function newEntrance(place: Place, sandboxId: string): Entrance {
  const { limits, endpoints } = place;
  const server = newServer(endpoints, limits, limits.socketUnprovenMax);
  const path = socketPath(place.folder, sandboxId);
  const entrance: Entrance = {
    ...{ sandboxId, path, server, isClosed: false },
    opened: listenUnix(server, path),
    left: limits.socketConnectionBurst,
    refilledAtMs: performance.now(),
  };
  server.prependListener("connection", (socket: Socket) => {
    place.owners.set(socket, sandboxId);
    if (!mayConnect(entrance, limits)) rest(place, entrance);
  });
  return entrance;
}

function mayConnect(entrance: Entrance, { socketConnectionBurst, socketConnectionsPerSecond }: RelayLimits): boolean {
  const now = performance.now();
  const refill = ((now - entrance.refilledAtMs) * socketConnectionsPerSecond) / 1_000;
  entrance.left = Math.min(socketConnectionBurst, entrance.left + refill) - 1;
  entrance.refilledAtMs = now;
  return entrance.left >= 0;
}

/** Those that wait to be accepted are let go of as well, by the kernel. */
function rest(place: Place, entrance: Entrance): void {
  const { limits, log } = place;
  const { sandboxId, server } = entrance;
  if (!server.listening) return;
  server.close();
  log.warn({ sandboxId, restMs: limits.socketRestMs }, "A sandbox opens connections without end: its socket rests");
  const listenAgain = () => {
    if (entrance.isClosed) return;
    listenUnix(server, entrance.path).catch((error: unknown) => {
      log.error({ sandboxId, reason: String(error) }, "A sandbox's socket cannot be listened on, trying again");
      setTimeout(listenAgain, limits.socketRestMs).unref();
    });
  };
  setTimeout(listenAgain, limits.socketRestMs).unref();
}

function closed(entrance: Entrance): Promise<void> {
  entrance.isClosed = true;
  return closeServer(entrance.server);
}
