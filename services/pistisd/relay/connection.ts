// The connection to the relay, kept up for as long as the pass is good: a closed socket, whatever its code says,
// means to come back, unless the relay refuses the pass or says that a newer connection took the place (C39).
import { setTimeout as delay } from "node:timers/promises";
import { CloseCode, relayPaths } from "#schemas/wire/relay-http.ts";
import type { Log } from "#shared/service/log.ts";
import { RECONNECT_MS_MAX, RECONNECT_MS_MIN } from "../limits.ts";
import { type RelayAddress, webSocketUrl } from "./address.ts";
import { askRelay } from "./http.ts";
import type { Outlet } from "./outlet.ts";
import { type Closed, openRelaySocket, type RelaySocket } from "./socket.ts";

export type ConnectionRequest = Readonly<{
  address: RelayAddress;
  pass: string;
  bootId: string;
  /** A new connection: its frames go to what this returns. */
  onConnection: (outlet: Outlet) => { onFrame: (bytes: Uint8Array) => void; close: () => void };
  signal: AbortSignal;
  log: Log;
}>;

/** Resolves when the relay wants no more of us, or when the signal fires. */
export async function keepConnected(request: ConnectionRequest): Promise<"refused" | "replaced" | "stopped"> {
  let waitMs = RECONNECT_MS_MIN;
  while (!request.signal.aborted) {
    const closed = await connectOnce(request);
    if (closed.code === CloseCode.replaced) return "replaced";
    if (closed.code === CloseCode.refused || (!closed.opened && (await isRefused(request)))) return "refused";
    waitMs = closed.opened ? RECONNECT_MS_MIN : Math.min(waitMs * 2, RECONNECT_MS_MAX);
    if (request.signal.aborted) break;
    request.log.warn({ code: closed.code, waitMs }, "The connection to the relay is closed; coming back");
    await pause(waitMs * (0.5 + Math.random()), request.signal);
  }
  return "stopped";
}

async function connectOnce(request: ConnectionRequest): Promise<Closed> {
  const { address, pass, bootId, signal, log } = request;
  const onOpen = () => log.info({ bootId }, "Connected to the relay");
  const onFrame = (bytes: Uint8Array) => handlers.onFrame(bytes);
  const socket: RelaySocket = openRelaySocket({
    ...{ url: webSocketUrl(address, relayPaths.connect), pass, bootId, onOpen, onFrame },
  });
  const handlers = request.onConnection(socket);
  const stop = () => socket.close();
  signal.addEventListener("abort", stop);
  const closed = await socket.closed;
  signal.removeEventListener("abort", stop);
  handlers.close();
  return closed;
}

/** A refused upgrade shows no status here, so the same path is asked plainly. */
async function isRefused({ address, pass, log }: ConnectionRequest): Promise<boolean> {
  try {
    const { status } = await askRelay(address, { method: "GET", path: relayPaths.connect, bearer: pass });
    return status === 401 || status === 403;
  } catch (error) {
    log.debug({ problem: String(error) }, "The relay cannot be reached");
    return false;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
