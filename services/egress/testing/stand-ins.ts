// Servers that stand for the internet in tests, on loopback. TLS goes without a certificate, by a shared key.
import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from "node:tls";
import type { Resources } from "#shared/service/resources.ts";

const psk = Buffer.from("a key that both of a test's sides know");
const PSK = { ciphers: "PSK-AES128-GCM-SHA256", minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const;

export type StandIn = Readonly<{ port: number; connections: Socket[]; requests: string[] }>;

export async function listening(server: Server, resources: Resources): Promise<StandIn> {
  const connections: Socket[] = [];
  server.on("connection", (socket: Socket) => {
    connections.push(socket);
    socket.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  resources.add("stand-in", server, async () => {
    for (const socket of connections) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not reached");
  return { port: address.port, connections, requests: [] };
}

/** Echoes over TLS. */
export function startTlsEcho(resources: Resources): Promise<StandIn> {
  const server = createTlsServer({ ...PSK, pskCallback: () => psk }, (socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  server.on("tlsClientError", () => undefined);
  return listening(server, resources);
}

/** Hands each connection to the test. */
export function startTcp(resources: Resources, onConnection: (socket: Socket) => void): Promise<StandIn> {
  return listening(createServer({ allowHalfOpen: true }, onConnection), resources);
}

/** Answers `method path host body` and notes it. */
export async function startHttp(resources: Resources): Promise<StandIn> {
  const requests: string[] = [];
  const server = createHttpServer((request, response) => {
    void bodyOf(request).then((body) => {
      const text = `${request.method} ${request.url} ${request.headers.host} ${body}`;
      requests.push(text);
      response.setHeader("x-hop", "kept").end(text);
    });
  });
  return { ...(await listening(server, resources)), requests };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

/** A TLS client on a connection that is there already; resolves when the handshake is done. */
export async function tlsOver(socket: Socket, servername: string | undefined): Promise<TLSSocket> {
  const tls = connectTls({
    ...{ ...PSK, socket, ALPNProtocols: [] },
    ...(servername === undefined ? {} : { servername }),
    pskCallback: () => ({ psk, identity: "test" }),
    checkServerIdentity: () => undefined,
  });
  await once(tls, "secureConnect");
  return tls;
}

/** The first bytes that a TLS client sends. */
export async function clientHello(servername: string | undefined): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not reached");
  const client = connectTls({
    port: address.port,
    host: "127.0.0.1",
    ...(servername === undefined ? {} : { servername }),
  });
  client.on("error", () => undefined);
  const [socket] = (await once(server, "connection")) as [Socket];
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}
