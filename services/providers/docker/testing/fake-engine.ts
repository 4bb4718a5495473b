// An engine that answers what a test wants, over real HTTP: for what a real one does only when it is broken, or once in a
// thousand times.
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Docker } from "../docker.ts";
import { prepareDocker } from "../docker-provider.ts";
import { guestSetting } from "./docker-guests.ts";

export type FakeAnswer = Readonly<{ status: number; json?: unknown; headers?: Readonly<Record<string, string>> }>;
/** `call`: method and path, without the API's version and the query. */
export type Answer = (call: string, query: URLSearchParams) => FakeAnswer | undefined;

export type FakeDocker = Readonly<{
  docker: Docker;
  /** All that it was asked, in order. */
  calls: readonly string[];
  close: () => Promise<void>;
}>;

/** A provider's parts over such an engine. What `answer` leaves out is answered 200 with nothing in it. */
export async function openFakeDocker(answer: Answer): Promise<FakeDocker> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-engine-"));
  const calls: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://engine");
    const call = `${request.method} ${pathname.replace(/^\/v[0-9.]+/, "")}`;
    calls.push(call);
    reply(request, response, answer(call, searchParams) ?? { status: 200, json: {} });
  });
  const socket = join(folder, "docker.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const { abandonedAfterMs: _usual, ...setting } = await guestSetting(folder, { docker: { host: `unix://${socket}` } });
  return {
    docker: await prepareDocker(setting),
    calls,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function reply(request: IncomingMessage, response: ServerResponse, { status, json, headers = {} }: FakeAnswer): void {
  request.resume().once("end", () => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(json === undefined ? undefined : JSON.stringify(json));
  });
}
