import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect } from "chai";
import { Refusal } from "#shared/errors/errors.ts";
import { Resources } from "#shared/service/resources.ts";
import type { Server } from "./api.ts";
import { followSession } from "./stream.ts";

const HASH = "0".repeat(64);

function ledgerFrame(sequence: number): string {
  const envelope = { sequence, id: "evt_1", session: "ses_1", at: "2026-01-01T00:00:00.000Z", writer: "brain" };
  const message = { ...envelope, correlationId: "ses_1", causationId: null, hash: HASH, prev: "", events: [] };
  return `event: ledger\nid: ${sequence}\ndata: ${JSON.stringify(message)}\n\n`;
}

describe("an event stream", () => {
  let resources: Resources;
  const connections: (string | undefined)[] = [];
  const paths: (string | undefined)[] = [];

  beforeEach(() => {
    resources = new Resources();
    connections.length = 0;
    paths.length = 0;
  });
  afterEach(() => resources.close());

  /** Answers the n-th connection with the n-th function. */
  async function serve(...answers: ((response: ServerResponse) => void)[]): Promise<Server> {
    const server = createServer((request: IncomingMessage, response) => {
      const answer = answers[connections.length];
      paths.push(request.url);
      connections.push(request.headers["last-event-id"]?.toString());
      if (answer === undefined) response.writeHead(404).end("{}");
      else answer(response);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    resources.add("server", server, () => {
      server.closeAllConnections();
      server.close();
    });
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("There is no port");
    return { url: `http://127.0.0.1:${address.port}`, token: "t" };
  }

  const stream = (response: ServerResponse) => response.writeHead(200, { "content-type": "text/event-stream" });

  it("goes on after the last message that was seen when the connection breaks (C39)", async () => {
    const server = await serve(
      (response) => {
        stream(response).write(ledgerFrame(3));
        response.write(ledgerFrame(5), () => response.destroy());
      },
      (response) => stream(response).end(`: alive\n\n${ledgerFrame(8)}`),
      (response) => stream(response).write(ledgerFrame(9)),
    );
    const seen: number[] = [];
    for await (const item of followSession(server, "ses_1", 2, AbortSignal.timeout(20_000))) {
      if (item.kind === "ledger") seen.push(item.message.sequence);
      if (seen.at(-1) === 9) break;
    }
    expect(seen).to.deep.equal([3, 5, 8, 9]);
    expect(connections).to.deep.equal(["2", "5", "8"]);
  });

  it("C134: begins with the last messages, and goes on after the newest that was seen", async () => {
    const server = await serve(
      (response) => stream(response).end(ledgerFrame(7) + ledgerFrame(9)),
      (response) => stream(response).write(ledgerFrame(12)),
    );
    const seen: number[] = [];
    for await (const item of followSession(server, "ses_1", { last: 2 }, AbortSignal.timeout(20_000))) {
      if (item.kind === "ledger") seen.push(item.message.sequence);
      if (seen.at(-1) === 12) break;
    }
    expect(seen).to.deep.equal([7, 9, 12]);
    expect(paths).to.deep.equal(["/v1/sessions/ses_1/stream?last=2", "/v1/sessions/ses_1/stream?after=9"]);
  });

  it("tries again when the server is unavailable for a while, and stops when it is refused", async () => {
    const server = await serve(
      (response) => response.writeHead(503).end('{"code":"unavailable","message":"later"}'),
      (response) => response.writeHead(401).end('{"code":"unauthorized","message":"no"}'),
    );
    const items: string[] = [];
    const follow = async () => {
      for await (const item of followSession(server, "ses_1", 0, AbortSignal.timeout(20_000))) items.push(item.kind);
    };
    const error = await follow().catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Refusal).with.property("code", "unauthorized");
    expect(items).to.deep.equal(["reconnecting"]);
  });

  it("ends when its reader leaves, and lets go of the connection", async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const server = await serve((response) => {
      response.once("close", resolve);
      stream(response).write(ledgerFrame(1));
    });
    for await (const _item of followSession(server, "ses_1", 0, AbortSignal.timeout(20_000))) break;
    await closed;
  });

  it("does not take what is no ledger message for one", async () => {
    const server = await serve((response) =>
      stream(response).write('event: ledger\nid: 1\ndata: {"sequence":"x"}\n\n'),
    );
    const read = followSession(server, "ses_1", 0, AbortSignal.timeout(20_000)).next();
    const error = await read.catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Refusal).with.property("code", "bad_answer");
  });
});
