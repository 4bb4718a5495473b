// The form of a request, before anybody looks at what it asks for.
import { expect } from "chai";
import { Resources } from "#shared/service/resources.ts";
import { testVolume, volumeTestBody } from "../testing/bodies.ts";
import { makeOwn, type Own } from "../testing/own-install.ts";
import { type ProxyUnderTest, startProxyForTest } from "../testing/proxy-under-test.ts";
import { exchange, sendRaw } from "../testing/raw-request.ts";

describe("docker-proxy, of the form of a request", () => {
  let proxy: ProxyUnderTest;
  let own: Own;
  const resources = new Resources();

  before(async () => {
    proxy = resources.add("proxy", await startProxyForTest(), ({ close }) => close());
    own = await makeOwn(proxy);
  });

  after(() => resources.close());

  const refusals: Readonly<Record<string, { send: readonly string[]; status: number }>> = {
    "an upgrade": {
      send: [
        `POST /v1.41/containers/x/attach?stream=1 HTTP/1.1\r\nhost: d\r\nconnection: Upgrade\r\nupgrade: tcp\r\n\r\n`,
      ],
      status: 403,
    },
    "an upgrade on a call that is let through": {
      send: ["GET /_ping HTTP/1.1\r\nhost: d\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n"],
      status: 403,
    },
    "the word upgrade alone": {
      send: ["GET /_ping HTTP/1.1\r\nhost: d\r\nconnection: upgrade\r\n\r\n"],
      status: 403,
    },
    "a tunnel": { send: ["CONNECT docker:80 HTTP/1.1\r\nhost: d\r\n\r\n"], status: 403 },
    "a whole URL": { send: ["GET http://docker/_ping HTTP/1.1\r\nhost: d\r\n\r\n"], status: 400 },
    "an expectation": {
      send: ["POST /containers/create HTTP/1.1\r\nhost: d\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"],
      status: 417,
    },
    "two lengths": {
      send: ["POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"],
      status: 400,
    },
    "a length and chunks": {
      send: [
        "POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      ],
      status: 400,
    },
    "a coding over chunks": {
      send: ["POST /volumes/create HTTP/1.1\r\nhost: d\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
      status: 400,
    },
    "a coding by another name": {
      send: ["POST /volumes/create HTTP/1.1\r\nhost: d\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"],
      status: 400,
    },
    "chunks with a broken length": {
      send: ["POST /volumes/create HTTP/1.1\r\nhost: d\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n"],
      status: 400,
    },
    "a header that comes twice": {
      send: ["GET /_ping HTTP/1.1\r\nhost: d\r\nhost: e\r\n\r\n"],
      status: 400,
    },
    "a header over two lines": {
      send: ["GET /_ping HTTP/1.1\r\nhost: d\r\nx-a: b\r\n upgrade: tcp\r\n\r\n"],
      status: 400,
    },
    "bare line ends": { send: ["GET /_ping HTTP/1.1\nhost: d\n\n"], status: 400 },
    "no host": { send: ["GET /_ping HTTP/1.1\r\n\r\n"], status: 400 },
    "headers without end": {
      send: [`GET /_ping HTTP/1.1\r\nhost: d\r\nx-a: ${"a".repeat(20_000)}\r\n\r\n`],
      status: 431,
    },
    "something that is not HTTP": { send: ["\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"], status: 400 },
    "HTTP/2": { send: ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], status: 400 },
    "a method of another protocol": { send: ["M-SEARCH /_ping HTTP/1.1\r\nhost: d\r\n\r\n"], status: 403 },
    "a packed body": {
      send: ["POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}"],
      status: 403,
    },
    "another method behind the method": {
      send: ["GET /_ping HTTP/1.1\r\nhost: d\r\nx-http-method-override: DELETE\r\n\r\n"],
      status: 403,
    },
  };
  for (const [what, { send, status }] of Object.entries(refusals)) {
    it(`refuses ${what}`, async () => {
      expect(await exchange(proxy.socketPath, ...send)).to.include({ status });
    });
  }

  it("answers one request of a connection, whatever follows it", async () => {
    const ping = "GET /_ping HTTP/1.1\r\nhost: d\r\nconnection: keep-alive\r\n\r\n";
    const remove = `DELETE /v1.41/containers/${own.containerId}?force=1 HTTP/1.1\r\nhost: d\r\n\r\n`;
    const text = await sendRaw(proxy.socketPath, ping + remove);
    expect(text.match(/HTTP\/1\.1 200/g)).to.have.length(1);
    expect(text).to.not.match(/HTTP\/1\.1 204/);
    expect(await proxy.ask({ path: `/containers/${own.containerId}/json` })).to.include({ status: 200 });
  });

  it("does not take a body for a second request", async () => {
    const inner = `DELETE /v1.41/containers/${own.containerId}?force=1 HTTP/1.1\r\nhost: d\r\n\r\n`;
    const head = `GET /_ping HTTP/1.1\r\nhost: d\r\ncontent-length: ${inner.length}\r\n\r\n`;
    expect(await exchange(proxy.socketPath, head + inner)).to.include({ status: 413, rule: "body_too_large" });
    expect(await proxy.ask({ path: `/containers/${own.containerId}/json` })).to.include({ status: 200 });
  });

  it("refuses a body that is too large, said in its length or chunk by chunk", async () => {
    const large = Buffer.alloc(70_000, " ");
    expect(await proxy.ask({ method: "POST", path: "/volumes/create", body: large })).to.include({ status: 413 });
    const head = "POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-type: application/json\r\n";
    const chunk = `${large.byteLength.toString(16)}\r\n${large}\r\n`;
    const chunked = await exchange(proxy.socketPath, `${head}transfer-encoding: chunked\r\n\r\n`, chunk, chunk);
    expect(chunked).to.include({ status: 413, rule: "body_too_large" });
  });

  it("reads a body in chunks like any other", async () => {
    const body = JSON.stringify(volumeTestBody({ key: proxy.key }));
    const head = "POST /v1.41/volumes/create HTTP/1.1\r\nhost: d\r\ncontent-type: application/json\r\n";
    const chunks = [...body].map((letter) => `1\r\n${letter}\r\n`).join("");
    const answer = await exchange(proxy.socketPath, `${head}transfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`);
    expect(answer.status).to.equal(201);
  });

  it("takes of two same keys in a body the one that it checked", async () => {
    const good = JSON.stringify(volumeTestBody({ key: proxy.key }));
    const twice = `{"Name":"team_postgres","Driver":"local",${good.slice(1)}`;
    const answer = await proxy.ask({ method: "POST", path: "/volumes/create", body: Buffer.from(twice) });
    expect(answer.rule).to.equal("body_not_json");
    const head = `POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-type: application/json\r\n`;
    const typed = await exchange(proxy.socketPath, `${head}content-length: ${twice.length}\r\n\r\n${twice}`);
    expect(typed).to.include({ status: 403, rule: "key_refused" });
    const same = `{"Name":"team_postgres",${good.slice(1)}`;
    const made = await exchange(proxy.socketPath, `${head}content-length: ${same.length}\r\n\r\n${same}`);
    expect(made.status).to.equal(201);
    expect(JSON.parse(made.text)).to.include({ Name: testVolume(proxy.key) });
  });

  it("gives up on whoever is slow to say what he wants", async () => {
    const slow = await startProxyForTest({ limits: { headersMs: 200, requestMs: 400 } });
    try {
      expect(await exchange(slow.socketPath, "GET /_ping HTTP/1.1\r\n")).to.include({ status: 408 });
      const body = "POST /volumes/create HTTP/1.1\r\nhost: d\r\ncontent-length: 100\r\n\r\n{";
      expect(await exchange(slow.socketPath, body)).to.include({ status: 408 });
    } finally {
      await slow.close();
    }
  });
});
