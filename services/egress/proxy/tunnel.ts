// CONNECT. On port 443 (`tlsOnlyPort`) only TLS goes through, with the server name that the tunnel was opened for. On other ports also
// plain HTTP, request by request as without a tunnel, and, where the operator listed that very port, anything else.
import type { Socket } from "node:net";
import { isIP } from "node:net";
import { authorityText, normalHost } from "#schemas/network/authority.ts";
import type { EgressReason } from "#schemas/network/egress-request.ts";
import { joinSockets } from "#shared/sockets/join-sockets.ts";
import type { Entry } from "../journal/journal.ts";
import type { Client } from "../pipe/pipe.ts";
import type { Target } from "../policy/policy.ts";
import { type FirstBytes, readFirstBytes } from "./first-bytes.ts";
import type { ProxyParts } from "./parts.ts";
import { authorise, reach, Unreached } from "./reach.ts";
import { refusalBytes } from "./refusal.ts";

const HTTP_PORT = 80;
/** A client that waits for the server to speak first says nothing for this long. */
const QUIET_MS = 1_000;
const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";

export type Tunnel = Readonly<{
  client: Client;
  socket: Socket;
  target: Target;
  entry: Entry;
  /** Takes the tunnel over when what comes is HTTP; each request in it is an entry of its own. */
  serveHttp: (bytes: Buffer) => void;
}>;

/** Answers a CONNECT. Everything that fails is told to the client, as far as it still listens, and to the journal. */
export async function openTunnel(parts: ProxyParts, tunnel: Tunnel): Promise<void> {
  const { client, socket, target, entry } = tunnel;
  try {
    await authorise(parts, client, target);
    if (target.port === parts.limits.tlsOnlyPort) await tunnelTls(parts, tunnel);
    else await tunnelAny(parts, tunnel);
  } catch (error) {
    const reason = error instanceof Unreached ? error.reason : "connect_failed";
    parts.journal.end(entry, reason);
    if (!(error instanceof Unreached)) parts.log.warn({ problem: String(error) }, "A tunnel failed");
    // Once the client was told that the tunnel stands, what it reads is the other side's.
    if (wasEstablished.has(socket)) socket.destroy();
    else socket.end(refusalBytes(reason, authorityText(target)), () => socket.destroySoon());
  }
}

const wasEstablished = new WeakSet<Socket>();

function establish(socket: Socket): void {
  wasEstablished.add(socket);
  socket.write(ESTABLISHED);
}

async function tunnelTls(parts: ProxyParts, tunnel: Tunnel): Promise<void> {
  const { socket, target } = tunnel;
  const upstream = await reach(parts, target);
  try {
    establish(socket);
    const { headMs: timeMs, clientHelloBytesMax: helloBytesMax } = parts.limits;
    const first = await readFirstBytes(socket, { timeMs, helloBytesMax });
    const reason = objection(first, target.host);
    if (reason !== undefined || !("bytes" in first)) throw new Unreached(reason ?? "client_silent");
    // The other side may have hung up meanwhile, and would not be heard to do so again.
    if (upstream.destroyed) throw new Unreached("connect_failed");
    pass(parts, tunnel, upstream, first.bytes);
  } catch (error) {
    upstream.destroy();
    throw error;
  }
}

async function tunnelAny(parts: ProxyParts, tunnel: Tunnel): Promise<void> {
  const { socket, target } = tunnel;
  establish(socket);
  const { clientHelloBytesMax: helloBytesMax } = parts.limits;
  const first = await readFirstBytes(socket, { timeMs: QUIET_MS, helloBytesMax });
  if (first.kind === "http") {
    tunnel.serveHttp(first.bytes);
    return;
  }
  if (first.kind === "tls" || first.kind === "tls-malformed") {
    const reason = objection(first, target.host);
    if (reason !== undefined) throw new Unreached(reason);
  } else if (target.port === HTTP_PORT) {
    throw new Unreached(first.kind === "silent" ? "client_silent" : "request_malformed");
  }
  const upstream = await reach(parts, target);
  pass(parts, tunnel, upstream, "bytes" in first ? first.bytes : Buffer.alloc(0));
}

/** The server name has to be the tunnel's own host; a connection to an address has none. */
function objection(first: FirstBytes, host: string): EgressReason | undefined {
  switch (first.kind) {
    case "tls":
      if (first.serverName === undefined) return isIP(host) === 0 ? "server_name_missing" : undefined;
      return normalHost(first.serverName) === host ? undefined : "server_name_mismatch";
    case "tls-malformed":
      return "tls_malformed";
    case "silent":
      return "client_silent";
    default:
      return "not_tls";
  }
}

function pass({ journal, limits }: ProxyParts, { socket, entry }: Tunnel, upstream: Socket, first: Buffer): void {
  journal.opened(entry, () => ({ up: upstream.bytesWritten, down: upstream.bytesRead }));
  upstream.once("close", () => journal.end(entry, "ended"));
  for (const side of [socket, upstream]) {
    side.on("error", () => side.destroy());
    side.setTimeout(limits.idleMs, () => side.destroy());
  }
  if (first.byteLength > 0) upstream.write(first);
  joinSockets(socket, upstream);
}
