// The sandbox's proxy: a port on its own loopback. What comes in goes, byte for byte, over the relay to the egress
// service, which decides; nothing is decided here, so whoever goes around this gets the same answers.
import { createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "#shared/service/log.ts";
import { joinSockets } from "#shared/sockets/join-sockets.ts";
import { WAYS_OUT_MAX } from "../limits.ts";
import type { RelayAddress } from "../relay/address.ts";
import { RefusedByRelay, upgradeAtRelay } from "./upgrade.ts";

export const PROXY_HOST = "127.0.0.1";
export const PROXY_PORT = 3128;

const LISTEN_AGAIN_MS = 1_000;

export type WayOutSettings = Readonly<{
  address: RelayAddress;
  /** The pass of now; null before the sandbox has joined. */
  pass: () => string | null;
  signal: AbortSignal;
  log: Log;
}>;

/** Listens until the signal fires. Should something hold the port, it is tried again until it is free. */
export async function keepWayOut(settings: WayOutSettings): Promise<void> {
  const { signal, log } = settings;
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    open.add(client);
    client.once("close", () => open.delete(client));
    client.on("error", () => client.destroy());
    void lead(settings, client);
  });
  server.maxConnections = WAYS_OUT_MAX;
  while (!signal.aborted && !(await listens(server, log))) {
    await delay(LISTEN_AGAIN_MS, undefined, { signal }).catch(() => undefined);
  }
  const closed = Promise.withResolvers<void>();
  const stop = () => {
    for (const client of open) client.destroy();
    server.close(() => closed.resolve());
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  await closed.promise;
}

function listens(server: Server, log: Log): Promise<boolean> {
  return new Promise((resolve) => {
    const failed = (error: Error) => {
      log.error({ problem: error.message, port: PROXY_PORT }, "The sandbox's proxy cannot listen; trying again");
      resolve(false);
    };
    server.once("error", failed);
    server.listen(PROXY_PORT, PROXY_HOST, () => {
      server.off("error", failed);
      resolve(true);
    });
  });
}

async function lead({ address, pass, signal, log }: WayOutSettings, client: Socket): Promise<void> {
  client.pause();
  try {
    const relay = await upgradeAtRelay(address, pass() ?? "", signal);
    if (client.destroyed) relay.destroy();
    else joinSockets(client, relay);
  } catch (error) {
    log.warn({ problem: String(error) }, "The relay opens no way out");
    refuse(client, error instanceof RefusedByRelay ? error : new RefusedByRelay(502, "relay_unreachable"));
  }
}

/** In words that a person who reads a tool's output understands (C119). */
function refuse(client: Socket, { status, code }: RefusedByRelay): void {
  const text = `This sandbox's way to the network is not open right now (${code}). Try again in a moment.\n`;
  const head = `HTTP/1.1 ${status} ${code}\r\nconnection: close\r\ncontent-type: text/plain\r\nx-pistis-reason: ${code}`;
  client.resume();
  client.end(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}
