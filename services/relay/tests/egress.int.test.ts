// The way out of a sandbox, as far as the relay goes: a stand-in takes the place of the egress service.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect } from "chai";
import { type EgressGreeting, egressGreeting, GREETING_TAKEN } from "#schemas/network/egress-pipe.ts";
import { EGRESS_PROTOCOL, relayPaths } from "#schemas/wire/relay-http.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { asAdmin, joinSandbox, type RelayUnderTest, startRelayForTest } from "./relay-under-test.ts";

const KEY = newSecret();

type Arrived = { socket: Socket; greeting: EgressGreeting };

/** Takes what has the right key; hands out each connection as it arrives. */
async function startStandIn(key = KEY) {
  const arrived: Arrived[] = [];
  const open = new Set<Socket>();
  let waiting = Promise.withResolvers<void>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", (line) => {
      const greeting = egressGreeting.parse(JSON.parse(line.toString()));
      if (greeting.key !== key) {
        socket.destroy();
        return;
      }
      socket.pause();
      socket.write(GREETING_TAKEN);
      arrived.push({ socket, greeting });
      waiting.resolve();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not reached");
  return {
    address: { host: "127.0.0.1", port: address.port },
    next: async (): Promise<Arrived> => {
      for (let one = arrived.shift(); ; one = arrived.shift()) {
        if (one !== undefined) return one;
        await waiting.promise;
        waiting = Promise.withResolvers();
      }
    },
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

type Where = { path: string } | { host: string; port: number };

/** Asks for the upgrade as pistisd does; resolves with the status, and the body of a refusal. */
async function askFor(where: Where, pass: string, protocol: string = EGRESS_PROTOCOL) {
  const socket = connect({ ...where, allowHalfOpen: true });
  socket.on("error", () => undefined);
  socket.write(
    `GET ${relayPaths.egress} HTTP/1.1\r\nhost: relay\r\nauthorization: Bearer ${pass}\r\nconnection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`,
  );
  const [first] = (await once(socket, "data")) as [Buffer];
  const [head = "", body = ""] = first.toString().split("\r\n\r\n");
  return { socket, status: Number(head.split(" ")[1]), body };
}

async function textOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

describe("the relay's way out of a sandbox", () => {
  let relay: RelayUnderTest;
  let egress: Awaited<ReturnType<typeof startStandIn>>;
  let tcp: Where;

  const startWith = async (changes: Parameters<typeof startRelayForTest>[0] = {}) => {
    relay = await startRelayForTest({ egress: { address: egress.address, key: KEY }, ...changes });
    const { hostname, port } = new URL(relay.url);
    tcp = { host: hostname, port: Number(port) };
  };

  beforeEach(async () => {
    egress = await startStandIn();
  });
  afterEach(async () => {
    await relay.close();
    await egress.close();
  });

  for (const kind of ["its port", "its Unix socket"] as const) {
    it(`S60: pipes a sandbox's bytes to the egress service and back, over ${kind}, and says whose they are`, async () => {
      await startWith();
      const { sandboxId, pass } = await joinSandbox(relay);
      const { socket, status } = await askFor(kind === "its port" ? tcp : { path: relay.socketOf(sandboxId) }, pass);
      expect(status).to.equal(101);
      const { socket: service, greeting } = await egress.next();
      expect(greeting).to.deep.equal({ key: KEY, sandboxId, generation: 1 });
      socket.end("from the sandbox");
      expect(await textOf(service)).to.equal("from the sandbox");
      service.end("from outside");
      expect(await textOf(socket)).to.equal("from outside");
    });
  }

  it("S42: is closed to all but a sandbox's own pass", async () => {
    await startWith();
    const { sandboxId, pass } = await joinSandbox(relay);
    for (const wrong of ["no-pass", newSecret()]) {
      expect(await askFor(tcp, wrong)).to.include({ status: 401 });
    }
    expect((await askFor(tcp, pass, "something")).status).to.equal(400);
    await fetch(relay.url + relayPaths.sandbox(sandboxId), asAdmin("DELETE"));
    expect((await askFor(tcp, pass)).status).to.equal(401);
  });

  it("says so when there is no egress service, and when it does not answer or does not know the relay", async () => {
    relay = await startRelayForTest();
    const codeFor = async () => {
      const { sandboxId, pass } = await joinSandbox(relay);
      const { status, body } = await askFor({ path: relay.socketOf(sandboxId) }, pass);
      return [status, (JSON.parse(body) as { code: string }).code];
    };
    expect(await codeFor()).to.deep.equal([404, "egress_not_configured"]);
    await relay.close();
    await startWith({ egress: { address: egress.address, key: newSecret() } });
    expect(await codeFor()).to.deep.equal([503, "egress_unreachable"]);
    await relay.close();
    await startWith({ egress: { address: { path: "/nowhere/egress.sock" }, key: KEY } });
    expect(await codeFor()).to.deep.equal([503, "egress_unreachable"]);
  });

  it("is cut when the pass is taken back or replaced", async () => {
    await startWith();
    const { sandboxId, pass } = await joinSandbox(relay);
    const first = await askFor(tcp, pass);
    const cut = once(first.socket, "end");
    const again = await joinSandbox(relay, sandboxId, 2);
    await cut;
    const second = await askFor(tcp, again.pass);
    expect(second.status).to.equal(101);
    await egress.next();
    expect((await egress.next()).greeting.generation).to.equal(2);
    const gone = once(second.socket, "end");
    await fetch(relay.url + relayPaths.sandbox(sandboxId), asAdmin("DELETE"));
    await gone;
  });

  it("is open to a sandbox so many times at once, whatever others do", async () => {
    await startWith({ limits: { egressPerSandboxMax: 2 } });
    const [one, other] = [await joinSandbox(relay), await joinSandbox(relay)];
    const first = await askFor(tcp, one.pass);
    await askFor(tcp, one.pass);
    expect((await askFor(tcp, one.pass)).status).to.equal(429);
    expect((await askFor(tcp, other.pass)).status).to.equal(101);
    const { socket } = await egress.next();
    first.socket.end();
    socket.end();
    await once(socket.resume(), "close");
    expect((await askFor(tcp, one.pass)).status).to.equal(101);
  });

  it("takes no more from a fast side than the slow one reads", async () => {
    const MIB = 1024 * 1024;
    await startWith();
    const { pass } = await joinSandbox(relay);
    const { socket } = await askFor(tcp, pass);
    const { socket: service } = await egress.next();
    socket.pause();
    service.end(Buffer.alloc(64 * MIB));
    const clock = await askFor(tcp, pass);
    const { socket: echo } = await egress.next();
    echo.pipe(echo);
    for (let turn = 0; turn < 100; turn++) {
      clock.socket.write("tick");
      await once(clock.socket, "data");
    }
    expect(service.writableLength).to.be.greaterThan(32 * MIB);
    let received = 0;
    for await (const part of socket) received += (part as Buffer).byteLength;
    expect(received).to.equal(64 * MIB);
  });
});
