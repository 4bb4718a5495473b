// HTTP servers of the relay, and where they listen.
import { chmod } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createConnection } from "node:net";
import { Fatal } from "#shared/errors/errors.ts";
import type { RelayLimits } from "../limits.ts";
import type { Endpoints } from "./endpoints.ts";
import { boundUnproven } from "./unproven.ts";

/** `unprovenMax`: how many of its connections may have shown nothing yet. */
export function newServer({ onRequest, onUpgrade }: Endpoints, limits: RelayLimits, unprovenMax: number): Server {
  const server = createServer({
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: 5_000,
    requestTimeout: 10_000,
    keepAliveTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
    noDelay: true,
  });
  server.on("request", onRequest);
  const prove = boundUnproven(server, unprovenMax);
  server.on("upgrade", (request, socket, head) => {
    prove(request.socket);
    onUpgrade(request, socket, head);
  });
  return server;
}

export function listen(server: Server, where: { host: string; port: number } | { path: string }): Promise<void> {
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

/** Whoever sees the socket may connect, as another user too. */
export async function listenUnix(server: Server, path: string): Promise<void> {
  await listen(server, { path });
  await chmod(path, 0o666);
}

/** A socket file that nobody listens on was left by a relay that was killed. */
export function isAnswering(path: string): Promise<boolean> {
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

/** Takes no new connection, and lets go of those that are no WebSocket. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
