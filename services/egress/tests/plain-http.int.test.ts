// Plain HTTP through the proxy, and what a hostile client may write instead.
import { once } from "node:events";
import { expect } from "chai";
import { ask, type EgressUnderTest, startEgressForTest, textOf } from "../testing/egress-under-test.ts";
import { type StandIn, startHttp, startTcp } from "../testing/stand-ins.ts";

describe("plain HTTP out of a sandbox", () => {
  let egress: EgressUnderTest;
  let server: StandIn;
  let client: ReturnType<EgressUnderTest["sandbox"]>;
  let host: string;

  beforeEach(async () => {
    egress = await startEgressForTest({
      names: { "allowed.example": ["127.0.0.1"], "blocked.example": ["127.0.0.1"] },
    });
    server = await startHttp(egress.resources);
    host = `allowed.example:${server.port}`;
    client = egress.sandbox({ mode: "allow", allow: [host] });
  });
  afterEach(() => egress.close());

  const request = async (...lines: string[]) => ask(await egress.pipe(client), ...lines, "", "");

  it("S60: reaches a listed host, with its body, and is told", async () => {
    const body = "4\r\nbody\r\n0\r\n\r\n";
    const head = [
      `POST http://${host}/a?b#c HTTP/1.1`,
      `host: ${host}`,
      "transfer-encoding: chunked",
      "connection: close",
    ];
    const { status, text } = await ask(await egress.pipe(client), ...head, "", body);
    expect(status).to.equal(200);
    expect(text).to.contain(`POST /a?b#c ${host} body`).and.to.contain("x-hop: kept");
    const entry = await egress.entry(({ reason }) => reason === "ended");
    expect(entry).to.include({ host: "allowed.example", port: server.port, via: "http", allowed: true });
    expect(entry.bytesUp).to.be.greaterThan(50);
  });

  it("C116: looks at the host of each request of a connection, and closes at the first that is refused", async () => {
    const socket = await egress.pipe(client);
    for (const path of ["/1", "/2"]) {
      socket.write(`GET http://${host}${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
      expect(String((await once(socket, "data"))[0])).to.contain("200 OK");
    }
    const blocked = `blocked.example:${server.port}`;
    socket.write(`GET http://${blocked}/3 HTTP/1.1\r\nhost: ${blocked}\r\n\r\n`);
    expect(await textOf(socket))
      .to.contain("403")
      .and.to.contain("host_not_allowed");
    expect(server.requests).to.have.length(2);
    expect(egress.nameServer.asked.filter((asked) => asked.startsWith("blocked"))).to.deep.equal([]);
  });

  it("answers requests that were sent at once in their order, and cuts off who sends too many", async () => {
    const socket = await egress.pipe(client);
    const get = (path: string, more = "") => `GET http://${host}${path} HTTP/1.1\r\nhost: ${host}\r\n${more}\r\n`;
    socket.write(get("/1") + get("/2") + get("/3", "connection: close\r\n"));
    const paths = (await textOf(socket)).match(/GET \/\d/g);
    expect(paths).to.deep.equal(["GET /1", "GET /2", "GET /3"]);
    const greedy = await egress.pipe(client);
    greedy.write(get("/many").repeat(100));
    await textOf(greedy);
    expect(server.requests.filter((request) => request.includes("many")).length).to.be.lessThan(20);
  });

  it("C116: has one Host header, which is the host that it goes to", async () => {
    const line = `GET http://${host}/ HTTP/1.1`;
    const wrong = [
      [line, `host: blocked.example:${server.port}`],
      [line, `host: ${host}`, "host: blocked.example"],
      [line, `host: ${host}`, `host: ${host}`],
      [line],
      [line, "host: allowed.example"],
      [line, `host: ${host}@blocked.example`],
    ];
    for (const lines of wrong) expect((await request(...lines)).text, lines.join()).to.contain("host_mismatch");
    expect(server.requests).to.deep.equal([]);
  });

  it("refuses what two readers could read in two ways", async () => {
    const line = `POST http://${host}/ HTTP/1.1`;
    const smuggled = "GET /secret HTTP/1.1";
    const wrong = [
      [line, `host: ${host}`, "content-length: 5", "transfer-encoding: chunked"],
      [line, `host: ${host}`, "content-length: 5", "content-length: 6"],
      [line, `host: ${host}`, "transfer-encoding: gzip, chunked"],
      [line, `host: ${host}`, "transfer-encoding: chunked", "transfer-encoding: identity"],
      [line, `host: ${host}`, "transfer-encoding : chunked"],
      [line, `host: ${host}`, "x: a", " folded: b"],
      [line, `host: ${host}`, "x: a\nsmuggled: b"],
      [line, `host: ${host}`, "x: a\0b"],
      [`POST http://${host}/ HTTP/1.1 extra`, `host: ${host}`],
      [`POST http://${host}/ ${smuggled}`, `host: ${host}`],
      ["POST / HTTP/1.1", `host: ${host}`],
      [`POST https://${host}/ HTTP/1.1`, `host: ${host}`],
      [`POST http://user@${host}/ HTTP/1.1`, `host: ${host}`],
      [`POST http://blocked.example\\@${host}/ HTTP/1.1`, `host: ${host}`],
      ["POST ftp://allowed.example/ HTTP/1.1", "host: allowed.example"],
      ["POST * HTTP/1.1", `host: ${host}`],
      ["\x16\x03\x01 not http"],
    ];
    for (const lines of wrong) {
      const { status, text } = await request(...lines);
      expect(status, `${lines.join(" | ")}\n${text}`).to.be.oneOf([400, 403]);
    }
    expect(server.requests).to.deep.equal([]);
  });

  it("keeps for itself what is said to the proxy only", async () => {
    const secret = "proxy-authorization: Basic c2VjcmV0";
    const more = [
      "proxy-connection: keep-alive",
      "connection: close, x-mine",
      "x-mine: 1",
      "x-theirs: 2",
      "te: trailers",
    ];
    const heard = Promise.withResolvers<string[]>();
    const raw = await startTcp(egress.resources, (socket) => {
      socket.once("data", (bytes) => {
        heard.resolve(bytes.toString().toLowerCase().split("\r\n"));
        socket.end("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
      });
    });
    const there = `allowed.example:${raw.port}`;
    const other = egress.sandbox({ mode: "allow", allow: [there] });
    await ask(await egress.pipe(other), `GET http://${there}/ HTTP/1.1`, `host: ${there}`, secret, ...more, "", "");
    expect(await heard.promise).to.have.members([
      "get / http/1.1",
      `host: ${there}`,
      "x-theirs: 2",
      "connection: close",
      "",
      "",
    ]);
  });

  it("has a head within limits, which comes within a time", async () => {
    const long = await request(`GET http://${host}/ HTTP/1.1`, `host: ${host}`, `x: ${"a".repeat(40_000)}`);
    expect(long.status).to.equal(400);
    await egress.close();
    egress = await startEgressForTest({ names: {}, limits: { headMs: 300 } });
    const slow = await egress.pipe(egress.sandbox({ mode: "open" }));
    slow.write("GET http://allowed.example/ HT");
    expect(await textOf(slow)).to.equal("");
  });

  it("says clearly what is wrong (C119)", async () => {
    const { text } = await request("GET http://blocked.example/ HTTP/1.1", "host: blocked.example");
    expect(text).to.contain("blocked.example").and.to.contain("sandboxes.allow in pistis.json");
  });
});
