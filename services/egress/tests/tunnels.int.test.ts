// CONNECT: who gets through, and to where. The internet is stand-ins on loopback.
import { once } from "node:events";
import { createConnection } from "node:net";
import { expect } from "chai";
import { Resources } from "#shared/service/resources.ts";
import { connectTo, type EgressUnderTest, startEgressForTest, textOf } from "../testing/egress-under-test.ts";
import { clientHello, type StandIn, startHttp, startTcp, startTlsEcho, tlsOver } from "../testing/stand-ins.ts";

const MIB = 1024 * 1024;

describe("a tunnel out of a sandbox", () => {
  let egress: EgressUnderTest;
  let tls: StandIn;

  const names = {
    "allowed.example": ["127.0.0.1"],
    "xn--bcher-kva.example": ["127.0.0.1"],
    "blocked.example": ["127.0.0.1"],
    "inside.example": ["10.0.0.1", "fd00::1", "::ffff:7f00:1"],
    "both.example": ["10.0.0.1", "127.0.0.1"],
    "rebinding.example": [["127.0.0.1"], ["127.0.0.9"]],
  };

  const start = async (options: Omit<Parameters<typeof startEgressForTest>[0], "names"> = {}) => {
    egress = await startEgressForTest({ names, ...options });
    tls = await startTlsEcho(egress.resources);
  };
  afterEach(() => egress.close());

  const allowed = (...hosts: string[]) =>
    egress.sandbox({ mode: "allow", allow: hosts.map((host) => `${host}:${tls.port}`) });

  it("S60: leads to a listed host, is told with its bytes, and passes what is sent unread", async () => {
    await start();
    const socket = await egress.pipe(allowed("allowed.example"));
    expect(await connectTo(socket, `Allowed.EXAMPLE.:${tls.port}`)).to.include({ status: 200 });
    const secure = await tlsOver(socket, "allowed.example");
    secure.write("hello");
    expect(String((await once(secure, "data"))[0])).to.equal("hello");
    secure.destroy();
    const entry = await egress.entry(({ reason }) => reason === "ended");
    expect(entry).to.include({ host: "allowed.example", port: tls.port, via: "connect", allowed: true });
    expect(entry.bytesUp).to.be.greaterThan(100);
    expect(entry.bytesDown).to.be.greaterThan(100);
  });

  it("C113: leads nowhere else, and a name that is not listed is not even looked up", async () => {
    await start();
    const client = allowed("allowed.example");
    for (const host of ["blocked.example", "data-of-a-secret.blocked.example", "127.0.0.1", "169.254.169.254"]) {
      const answer = await connectTo(await egress.pipe(client), `${host}:${tls.port}`);
      expect(answer, host).to.deep.equal({ status: 403, reason: "host_not_allowed" });
      expect(await egress.entry((entry) => entry.host === host)).to.include({ allowed: false, bytesUp: 0 });
    }
    expect(egress.nameServer.asked).to.deep.equal([]);
    expect(tls.connections).to.deep.equal([]);
  });

  it("S60: is for no sandbox without a network, of another generation, or that nobody knows", async () => {
    await start();
    const none = egress.sandbox({ mode: "none" });
    const known = allowed("allowed.example");
    const target = `allowed.example:${tls.port}`;
    expect(await connectTo(await egress.pipe(none), target)).to.include({ reason: "network_none" });
    for (const client of [
      { ...known, generation: 2 },
      { ...known, sandboxId: "sbx_nobody" },
    ]) {
      expect(await connectTo(await egress.pipe(client), target)).to.include({ reason: "sandbox_unknown" });
    }
  });

  it("waits for nobody who cannot say what a sandbox may reach", async () => {
    await start({ changes: { askNetwork: () => Promise.reject(new Error("away")) } });
    const socket = await egress.pipe({ sandboxId: "sbx_a", generation: 1 });
    expect(await connectTo(socket, "allowed.example:443")).to.deep.equal({ status: 503, reason: "policy_unknown" });
  });

  it("S62: is named in any spelling, and has exactly one form of it", async () => {
    await start();
    const client = egress.sandbox({ mode: "allow", allow: [`xn--bcher-kva.example:${tls.port}`] });
    for (const host of ["bücher.example", "XN--BCHER-KVA.example."]) {
      const spelled = Buffer.from(host).toString("latin1");
      const { status } = await connectTo(await egress.pipe(client), `${spelled}:${tls.port}`);
      expect(status, host).to.equal(host.startsWith("b") ? 400 : 200);
    }
  });

  it("C116: goes through with its own host's server name only, whatever the bytes are cut into", async () => {
    await start();
    const client = allowed("allowed.example");
    const hello = await clientHello("blocked.example");
    const nameless = await clientHello(undefined);
    const broken = Buffer.concat([hello.subarray(0, 40), Buffer.alloc(hello.byteLength - 40, 0xff)]);
    const wrong: [Buffer, number, string][] = [
      [hello, hello.byteLength, "server_name_mismatch"],
      [hello, 1, "server_name_mismatch"],
      [nameless, nameless.byteLength, "server_name_missing"],
      [broken, 100, "tls_malformed"],
    ];
    for (const [bytes, size, reason] of wrong) {
      const socket = await egress.pipe(client);
      expect((await connectTo(socket, `allowed.example:${tls.port}`)).status).to.equal(200);
      for (let at = 0; at < bytes.byteLength; at += size) socket.write(bytes.subarray(at, at + size));
      expect(await textOf(socket)).to.equal("");
      expect(await egress.entry((entry) => entry.reason === reason)).to.include({ allowed: false, bytesUp: 0 });
    }
    expect(tls.connections.map(({ bytesRead }) => bytesRead).filter((count) => count > 0)).to.deep.equal([]);
  });

  it("takes nothing but TLS on 443", async () => {
    const outside = new Resources();
    const received: Buffer[] = [];
    const server = await startTcp(outside, (socket) => socket.on("data", (bytes) => received.push(bytes)));
    await start({ limits: { tlsOnlyPort: server.port } });
    egress.resources.add("stand-ins", outside, (it) => it.close());
    const authority = `allowed.example:${server.port}`;
    const client = egress.sandbox({ mode: "allow", allow: [authority] });
    for (const bytes of ["GET / HTTP/1.1\r\nhost: allowed.example\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x02\x01\x00\x01x"]) {
      const socket = await egress.pipe(client);
      expect((await connectTo(socket, authority)).status).to.equal(200);
      socket.write(Buffer.from(bytes, "latin1"));
      expect(await textOf(socket)).to.equal("");
    }
    expect(await egress.entry(({ reason }) => reason === "not_tls")).to.include({ allowed: false });
    expect(received).to.deep.equal([]);
  });

  it("S60: goes to no private address, whatever a name resolves to, and to the very address that was looked at", async () => {
    await start();
    const open = egress.sandbox({ mode: "open" });
    const to = async (authority: string) => connectTo(await egress.pipe(open), authority);
    const inside = ["inside.example", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "0x7f.2", "2130706434"];
    for (const host of [...inside, "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "192.0.2.1"]) {
      const answer = await to(`${host}:443`);
      expect(answer, host).to.deep.equal({ status: 403, reason: "address_not_public" });
    }
    for (const host of ["both.example", "rebinding.example"]) {
      const socket = await egress.pipe(open);
      expect((await connectTo(socket, `${host}:${tls.port}`)).status).to.equal(200);
      const secure = await tlsOver(socket, host);
      secure.destroy();
      expect(egress.nameServer.asked.filter((asked) => asked === `${host} A`)).to.have.length(1);
    }
  });

  it("passes other protocols on a port that is listed, also when the server speaks first", async () => {
    await start();
    const server = await startTcp(egress.resources, (socket) => {
      socket.write("220 ready\n");
      socket.pipe(socket);
    });
    const client = egress.sandbox({ mode: "allow", allow: [`allowed.example:${server.port}`] });
    const socket = await egress.pipe(client);
    expect((await connectTo(socket, `allowed.example:${server.port}`)).status).to.equal(200);
    expect(String((await once(socket, "data"))[0])).to.equal("220 ready\n");
    socket.end("EHLO\n");
    expect(await textOf(socket)).to.equal("EHLO\n");
  });

  it("goes on for longer than dialling may take", async () => {
    await start({ limits: { connectMs: 50 } });
    const socket = await egress.pipe(allowed("allowed.example"));
    expect((await connectTo(socket, `allowed.example:${tls.port}`)).status).to.equal(200);
    const secure = await tlsOver(socket, "allowed.example");
    const begun = performance.now();
    while (performance.now() - begun < 200) {
      secure.write("tick");
      await once(secure, "data");
    }
    expect(egress.entries().filter(({ reason }) => reason !== "open")).to.deep.equal([]);
    secure.destroy();
  });

  it("is over and told when the server hung up before the client has said for whom it is", async () => {
    const outside = new Resources();
    const server = await startTcp(outside, () => undefined);
    await start({ limits: { tlsOnlyPort: server.port } });
    egress.resources.add("stand-ins", outside, (it) => it.close());
    const authority = `allowed.example:${server.port}`;
    const socket = await egress.pipe(egress.sandbox({ mode: "allow", allow: [authority] }));
    expect((await connectTo(socket, authority)).status).to.equal(200);
    server.connections[0]?.resetAndDestroy();
    // Takes connections of its own, so that the reset is heard before it.
    socket.write(await clientHello("allowed.example"));
    expect(await textOf(socket)).to.equal("");
    expect(await egress.entry(({ reason }) => reason !== "open")).to.include({ reason: "connect_failed" });
  });

  it("C116: answers plain HTTP inside request by request, as without a tunnel", async () => {
    await start();
    const server = await startHttp(egress.resources);
    const authority = `allowed.example:${server.port}`;
    const client = egress.sandbox({ mode: "allow", allow: [authority] });
    const socket = await egress.pipe(client);
    expect((await connectTo(socket, authority)).status).to.equal(200);
    socket.write(`GET /a HTTP/1.1\r\nhost: ${authority}\r\n\r\n`);
    expect(String((await once(socket, "data"))[0])).to.contain("200 OK");
    socket.write("GET /b HTTP/1.1\r\nhost: blocked.example\r\n\r\n");
    expect(await textOf(socket)).to.contain("host_mismatch");
    expect(server.requests).to.deep.equal([`GET /a ${authority} `]);
    const inner = await egress.pipe(client);
    await connectTo(inner, authority);
    inner.write(`CONNECT blocked.example:${server.port} HTTP/1.1\r\nhost: ${authority}\r\n\r\n`);
    expect(await textOf(inner)).to.contain("400");
  });

  it("S60: is for the relay only: who does not know its key is cut off", async () => {
    await start();
    const client = allowed("allowed.example");
    for (const changes of [{ key: "wrong" }, { sandboxId: "not an id" }, { generation: 0 }]) {
      const outcome = await egress.pipe(client, changes).then(
        () => "taken",
        () => "cut",
      );
      expect(outcome).to.equal("cut");
    }
    const talkative = createConnection(egress.path);
    talkative.on("error", () => undefined);
    talkative.write(`${JSON.stringify({ key: egress.key, ...client })}\nCONNECT a:443 HTTP/1.1\r\n\r\n`);
    expect(await textOf(talkative)).to.equal("");
  });

  it("holds up a fast server for a slow sandbox, and others not at all", async () => {
    await start();
    const server = await startTcp(egress.resources, (socket) => {
      socket.once("data", () => socket.end(Buffer.alloc(64 * MIB)));
    });
    const client = egress.sandbox({
      mode: "allow",
      allow: [`allowed.example:${server.port}`, `allowed.example:${tls.port}`],
    });
    const slow = await egress.pipe(client);
    await connectTo(slow, `allowed.example:${server.port}`);
    slow.pause();
    slow.write("\x01 more, please");
    const quick = await egress.pipe(client);
    await connectTo(quick, `allowed.example:${tls.port}`);
    const secure = await tlsOver(quick, "allowed.example");
    for (let turn = 0; turn < 100; turn++) {
      secure.write("tick");
      await once(secure, "data");
    }
    expect(server.connections[0]?.writableLength).to.be.greaterThan(32 * MIB);
    let received = 0;
    for await (const part of slow) received += (part as Buffer).byteLength;
    expect(received).to.equal(64 * MIB);
  });
});
