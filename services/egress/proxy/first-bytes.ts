// What a client begins to speak in a tunnel. Only a TLS hello or an HTTP request says which host is meant, and both are
// held against the host that the tunnel was opened for before a byte goes on.
import type { Socket } from "node:net";
import { ClientHelloReader } from "../tls/client-hello.ts";

export type FirstBytes =
  | Readonly<{ kind: "tls"; serverName: string | undefined; bytes: Buffer }>
  | Readonly<{ kind: "tls-malformed" }>
  | Readonly<{ kind: "http" | "other"; bytes: Buffer }>
  /** Nothing came, or it ended. */
  | Readonly<{ kind: "silent" }>;

const TLS_HANDSHAKE = 22;
/** A method and a blank, as far as it has come. */
const HTTP_BYTES_MAX = 24;
const HTTP_START = /^[A-Za-z!#$%&'*+.^_`|~-]{1,20}( |$)/;

/** Resolves when enough has come to tell; the socket is paused then. */
export function readFirstBytes(socket: Socket, limits: { timeMs: number; helloBytesMax: number }): Promise<FirstBytes> {
  return new Promise((resolve) => {
    const reader = new ClientHelloReader(limits.helloBytesMax);
    let plain = Buffer.alloc(0);
    const done = (first: FirstBytes) => {
      clearTimeout(deadline);
      socket.pause();
      socket.off("data", onData).off("end", onEnd).off("close", onEnd);
      resolve(first);
    };
    const onData = (bytes: Buffer) => {
      const isTls = plain.byteLength === 0 && (reader.received.byteLength > 0 || bytes[0] === TLS_HANDSHAKE);
      if (!isTls) plain = Buffer.concat([plain, bytes]);
      const first = isTls ? tls(reader, bytes) : notTls(plain);
      if (first !== undefined) done(first);
    };
    const onEnd = () => done(plain.byteLength > 0 ? { kind: "other", bytes: plain } : { kind: "silent" });
    const deadline = setTimeout(onEnd, limits.timeMs);
    socket.on("data", onData).on("end", onEnd).on("close", onEnd);
    socket.resume();
  });
}

function tls(reader: ClientHelloReader, bytes: Buffer): FirstBytes | undefined {
  const result = reader.push(bytes);
  if (result.status === "incomplete") return undefined;
  if (result.status === "invalid") return { kind: "tls-malformed" };
  return { kind: "tls", serverName: result.serverName, bytes: reader.received };
}

function notTls(bytes: Buffer): FirstBytes | undefined {
  const start = bytes.subarray(0, HTTP_BYTES_MAX).toString("latin1");
  const [, end] = HTTP_START.exec(start) ?? [];
  if (end === " ") return { kind: "http", bytes };
  return end === "" && bytes.byteLength < HTTP_BYTES_MAX ? undefined : { kind: "other", bytes };
}
