// One connection to the relay that turns into one to the egress service. By hand, because Bun's own HTTP client does
// not hand out the socket of an upgrade.
import { connect, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { EGRESS_PROTOCOL, relayPaths } from "#schemas/wire/relay-http.ts";
import { CONNECT_MS_MAX } from "../limits.ts";
import type { RelayAddress } from "../relay/address.ts";

const HEAD_BYTES_MAX = 8 * 1024;
const HEAD_END = "\r\n\r\n";

/** The relay answered, and not with an upgrade. */
export class RefusedByRelay extends Error {
  override readonly name = "RefusedByRelay";
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string) {
    super(`${status} ${code}`);
    this.status = status;
    this.code = code;
  }
}

/** Resolves with the upgraded connection, paused. Rejects with RefusedByRelay or what failed. */
export function upgradeAtRelay(address: RelayAddress, pass: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = dial(address);
    const giveUp = (error: Error) => {
      clearTimeout(deadline);
      signal.removeEventListener("abort", stop);
      socket.destroy();
      reject(error);
    };
    const stop = () => giveUp(new Error("stopping"));
    const deadline = setTimeout(() => giveUp(new Error("The relay is silent")), CONNECT_MS_MAX);
    signal.addEventListener("abort", stop, { once: true });
    let head = Buffer.alloc(0);
    const onClose = () => giveUp(new Error("The relay closed the connection"));
    const onData = (bytes: Buffer) => {
      head = Buffer.concat([head, bytes]);
      const end = head.indexOf(HEAD_END);
      if (end < 0 && head.byteLength <= HEAD_BYTES_MAX) return;
      const status = statusOf(head);
      if (status !== 101 || end < 0) {
        giveUp(new RefusedByRelay(status === 429 || status === 503 ? status : 502, codeIn(head)));
        return;
      }
      clearTimeout(deadline);
      signal.removeEventListener("abort", stop);
      socket.off("data", onData).off("close", onClose).off("end", onClose).pause();
      const rest = head.subarray(end + HEAD_END.length);
      if (rest.byteLength > 0) socket.unshift(rest);
      resolve(socket);
    };
    socket.on("error", giveUp).on("close", onClose).on("end", onClose).on("data", onData);
    socket.write(request(address, pass));
  });
}

function dial(address: RelayAddress): Socket {
  if (address.kind === "unix") return connect({ path: address.socketPath, allowHalfOpen: true });
  const { hostname, port, protocol } = address.url;
  const host = hostname.replace(/^\[|\]$/g, "");
  if (protocol !== "https:") return connect({ host, port: Number(port || 80), allowHalfOpen: true });
  return connectSecurely({ host, servername: host, port: Number(port || 443) });
}

function request(address: RelayAddress, pass: string): string {
  const host = address.kind === "unix" ? "relay" : address.url.host;
  const lines = [
    `GET ${relayPaths.egress} HTTP/1.1`,
    `host: ${host}`,
    `authorization: Bearer ${pass}`,
    "connection: upgrade",
    `upgrade: ${EGRESS_PROTOCOL}`,
  ];
  return `${lines.join("\r\n")}${HEAD_END}`;
}

function statusOf(head: Buffer): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(head.toString("latin1"))?.[1] ?? 0);
}

/** The relay's own refusals are a small JSON with a code. */
function codeIn(answer: Buffer): string {
  return /"code":"([a-z_]{1,60})"/.exec(answer.toString("latin1"))?.[1] ?? "relay_refused";
}
