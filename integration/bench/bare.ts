// What the same work takes with nothing around it: the baselines.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

/** Spawns `sh -c command`, reads all of its output; resolves with the bytes read. */
export async function bareSpawn(command: string): Promise<number> {
  const child = spawn("/bin/sh", ["-c", command], { stdio: ["ignore", "pipe", "pipe"] });
  let bytes = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  child.stderr.resume();
  await once(child, "close");
  return bytes;
}

/** A WebSocket pair on loopback. `echo` resolves when one small message came back. */
export async function bareEcho(): Promise<{ echo: () => Promise<void>; close: () => Promise<void> }> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => socket.on("message", (data) => socket.send(data)));
  await once(server, "listening");
  const client = new WebSocket(`ws://127.0.0.1:${portOf(server.address())}`, { perMessageDeflate: false });
  await once(client, "open");
  return {
    echo: async () => {
      const back = once(client, "message");
      client.send("x".repeat(200));
      await back;
    },
    close: async () => {
      client.terminate();
      server.close();
    },
  };
}

/** Milliseconds for `total` bytes in messages of `chunk` bytes over one WebSocket on loopback. */
export async function bareWebSocketTransferMs(total: number, chunk: number): Promise<number> {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => pump(socket, total, chunk));
  await once(server, "listening");
  const start = performance.now();
  const client = new WebSocket(`ws://127.0.0.1:${portOf(server.address())}`, { perMessageDeflate: false });
  let received = 0;
  await new Promise<void>((resolve) => {
    client.on("message", (data: Buffer) => {
      received += data.length;
      if (received >= total) resolve();
    });
  });
  const took = performance.now() - start;
  client.terminate();
  server.close();
  return took;
}

const BUFFERED_BYTES_MAX = 1024 * 1024;

function pump(socket: WebSocket, total: number, chunk: number): void {
  const block = Buffer.alloc(chunk, "x");
  let sent = 0;
  const more = () => {
    while (sent < total && socket.bufferedAmount < BUFFERED_BYTES_MAX) {
      socket.send(block, more);
      sent += chunk;
    }
  };
  more();
}

/**
 * The smallest agent there could be: an HTTP server that on POST asks the model server once and spawns the command.
 * It isolates nothing and stores nothing. Resolves with what the command printed.
 */
export async function bareAgent(
  modelUrl: string,
): Promise<{ post: (command: string) => Promise<string>; close: () => Promise<void> }> {
  const server = createServer(async (_incoming, answer) => {
    await (await fetch(modelUrl, { method: "POST", body: "{}" })).text();
    const child = spawn("/bin/sh", ["-c", String(_incoming.headers["x-command"])], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const chunks: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    await once(child, "close");
    answer.end(Buffer.concat(chunks));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = portOf(server.address());
  return {
    post: (command) => httpPost(port, command),
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function httpPost(port: number, command: string): Promise<string> {
  const outgoing = request({ host: "127.0.0.1", port, method: "POST", headers: { "x-command": command } });
  outgoing.end();
  const [answer] = await once(outgoing, "response");
  let text = "";
  for await (const chunk of answer) text += String(chunk);
  return text;
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === "string") throw new Error("The server does not listen on a port");
  return address.port;
}
