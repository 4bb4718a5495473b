import { once } from "node:events";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import { failureFrom } from "#shared/testing/messages.ts";
import { fetchOverNode } from "./transport.ts";

const MIB = 1024 * 1024;

describe("the way to a model's server", () => {
  let server: Server;
  let url: string;

  async function serve(handle: RequestListener): Promise<void> {
    server = createServer(handle);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/v1`;
  }
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const post = (signal?: AbortSignal) =>
    fetchOverNode(url, { method: "POST", headers: { "X-Key": "k" }, body: "é", ...(signal && { signal }) });

  it("sends what it is given and answers with status, headers and body", async () => {
    await serve(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) if (chunk instanceof Buffer) chunks.push(chunk);
      response.writeHead(429, { "Retry-After": "3" }).end(`${request.headers["x-key"]} ${Buffer.concat(chunks)}`);
    });
    const response = await post();
    expect(response).to.include({ status: 429, ok: false });
    expect(response.headers.get("retry-after")).to.equal("3");
    expect(await response.text()).to.equal("k é");
  });

  it("uses a connection again", async () => {
    const connections = new Set<unknown>();
    await serve((request, response) => {
      connections.add(request.socket);
      response.end("fine");
    });
    for (let count = 0; count < 3; count++) await (await post()).text();
    expect(connections.size).to.equal(1);
  });

  it("says why there is no answer", async () => {
    await serve((request) => request.socket.destroy());
    const broken = await failureFrom(post);
    expect(broken).to.be.instanceOf(TypeError).with.property("message", "fetch failed");
    expect(broken).to.have.nested.property("cause.code", "ECONNRESET");
  });

  it("gives up before and while it waits, with the signal's reason", async () => {
    const asked = Promise.withResolvers<void>();
    await serve(() => asked.resolve());
    const stop = new AbortController();
    const failure = failureFrom(() => post(stop.signal));
    await asked.promise;
    const reason = new Error("Stop");
    stop.abort(reason);
    expect(await failure).to.equal(reason);
    expect(await failureFrom(() => post(stop.signal))).to.equal(reason);
  });

  it("fails the reading of a body that breaks off, or that is given up", async () => {
    const answering: ServerResponse[] = [];
    await serve((_request, response) => {
      response.write("half");
      answering.push(response);
    });
    const broken = await post();
    answering[0]?.destroy();
    expect(await failureFrom(() => broken.text())).to.be.instanceOf(Error);
    const stop = new AbortController();
    const given = await post(stop.signal);
    const reason = new Error("Stop");
    stop.abort(reason);
    expect(await failureFrom(() => given.text())).to.equal(reason);
  });

  it("reads no faster than the body is taken, and no more once it is not wanted", async () => {
    const gone = Promise.withResolvers<void>();
    let sent = 0;
    await serve((_request, response) => {
      const write = () => {
        for (let goesOn = true; goesOn && !response.destroyed && sent < 64 * MIB; sent += MIB) {
          goesOn = response.write(Buffer.alloc(MIB));
        }
      };
      response.on("drain", write).on("close", gone.resolve);
      write();
    });
    const { body } = await post();
    const reader = body?.getReader();
    await reader?.read();
    // What is under way is held by the sockets' own buffers, however often both sides come to their turn.
    for (let turn = 0; turn < 1_000; turn++) await nextTurn();
    expect(sent).to.be.lessThan(32 * MIB);
    await reader?.cancel();
    await gone.promise;
  });
});
