// docker-proxy in front of the real engine. Beside its install is another one, whose container, network and volume are
// canaries: after everything that is tried here they are as they were.
import { rm } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "chai";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { Resources } from "#shared/service/resources.ts";
import { networkTestBody, sandboxTestBody, testVolume, volumeTestBody } from "./testing/bodies.ts";
import { type Operation, oddOperations, operations } from "./testing/engine-operations.ts";
import { engine, otherInstall, type ProxyUnderTest, startProxyForTest } from "./testing/proxy-under-test.ts";
import { exchange, follow, sendRaw } from "./testing/raw-request.ts";

/** What the provider needs; the rest of the engine's operations does not exist behind the proxy. */
const LET_THROUGH = new Set([
  "GET /_ping",
  "GET /info",
  "GET /events",
  "GET /images/{name}/json",
  "GET /containers/json",
  "POST /containers/create",
  "GET /containers/{id}/json",
  "POST /containers/{id}/start",
  "POST /containers/{id}/stop",
  "POST /containers/{id}/pause",
  "POST /containers/{id}/unpause",
  "DELETE /containers/{id}",
  "HEAD /containers/{id}/archive",
  "GET /containers/{id}/archive",
  "PUT /containers/{id}/archive",
  "GET /volumes",
  "POST /volumes/create",
  "DELETE /volumes/{name}",
  "GET /networks",
  "POST /networks/create",
  "DELETE /networks/{id}",
]);

describe("docker-proxy before a real engine", () => {
  let proxy: ProxyUnderTest;
  let other: Awaited<ReturnType<typeof otherInstall>>;
  let own: Own;
  const resources = new Resources();

  before(async () => {
    proxy = resources.add("proxy", await startProxyForTest(), ({ close }) => close());
    other = resources.add("other install", await otherInstall("198.51.100.128/29"), ({ close }) => close());
    own = await makeOwn(proxy);
  });

  after(() => resources.close());

  describe("of the engine's own list of operations", () => {
    const refused = operations.filter(({ method, path }) => !LET_THROUGH.has(`${method} ${path}`));

    it("lets through what the provider needs and nothing else", () => {
      const known = operations.map(({ method, path }) => `${method} ${path}`);
      expect(known).to.have.length(106);
      expect(known).to.include.members([...LET_THROUGH]);
      expect(refused).to.have.length(106 - LET_THROUGH.size);
    });

    for (const { method, path } of [...refused, ...oddOperations]) {
      it(`refuses ${method} ${path}, on whatever object and in each spelling`, async () => {
        for (const place of spellings(path, [own.containerId, other.containerId])) {
          const answer = await proxy.ask({ method, path: place });
          expect(answer.status, place).to.be.oneOf([400, 403]);
          if (method !== "HEAD") expect(answer.message, place).to.match(/^docker-proxy: .+/);
        }
      });
    }

    for (const operation of operations.filter(({ method, path }) => LET_THROUGH.has(`${method} ${path}`))) {
      if (!/\{/.test(operation.path) || operation.path.startsWith("/images")) continue;
      it(`refuses ${operation.method} ${operation.path} on what is another install's`, async () => {
        for (const name of foreignNames(operation, other)) {
          const path = operation.path.replace(/\{(id|name)\}/, name);
          const answer = await proxy.ask({ method: operation.method, path: path + queryFor(operation) });
          expect(answer.status, path).to.equal(403);
          if (operation.method !== "HEAD") expect(answer.rule, path).to.match(/^foreign_(container|network|volume)$/);
        }
      });
    }
  });

  describe("in the form of a request", () => {
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

  describe("with the provider's own calls", () => {
    it("lists containers, networks and volumes of this install only, whatever filter is asked for", async () => {
      const filters = [
        "",
        `filters=${encodeURIComponent(JSON.stringify({ label: [LABELS.install] }))}`,
        `filters=${encodeURIComponent(JSON.stringify({ label: [`${LABELS.install}=${other.key}`] }))}`,
        `filters=${encodeURIComponent(JSON.stringify({ label: [] }))}`,
      ];
      for (const filter of filters) {
        for (const path of [`/containers/json?all=1&${filter}`, `/volumes?${filter}`, `/networks?${filter}`]) {
          const { status, text } = await proxy.ask({ path: path.replace(/[?&]$/, "") });
          expect(status, path).to.equal(200);
          expect(text, path).to.not.contain(other.key);
          expect(text, path).to.not.contain(other.networkId);
        }
      }
      const all = await proxy.ask({ path: "/containers/json?all=true" });
      expect(all.text).to.contain(own.containerId);
    });

    it("refuses filters that are not the call's own", async () => {
      for (const filter of [
        { "label!": ["x"] },
        { id: [other.containerId] },
        { ancestor: ["debian"] },
        { type: ["image"] },
      ]) {
        const filters = encodeURIComponent(JSON.stringify(filter));
        expect(await proxy.ask({ path: `/containers/json?filters=${filters}` }), JSON.stringify(filter)).to.satisfy(
          ({ status }: { status: number }) => status === 400 || status === 403,
        );
      }
    });

    it("shows the subnets that others use and nothing more of their networks", async () => {
      const { text } = await proxy.ask({ path: "/networks" });
      expect(text).to.contain('{"Name":"","Id":"","Labels":{},"IPAM":{"Config":[{"Subnet":"198.51.100.128/29"}]}}');
      expect(text).to.contain(own.networkId);
    });

    it("says of the engine what the provider asks and keeps the rest", async () => {
      const { text } = await proxy.ask({ path: "/info" });
      const known = JSON.parse(text);
      expect(known).to.include.keys("ServerVersion", "Driver", "SecurityOptions", "MemTotal");
      expect(known).to.not.have.any.keys("HttpProxy", "RegistryConfig", "Containers", "Name", "Swarm", "Labels", "ID");
    });

    it("gives a container the network by its id, so that a name that changes hands changes nothing", async () => {
      const { text } = await proxy.ask({ path: `/containers/${own.containerId}/json` });
      expect(JSON.parse(text).HostConfig.NetworkMode).to.equal(own.networkId);
    });

    it("makes no container with a volume that was not made through it", async () => {
      const name = `pistis-${proxy.key}-pistisd-ffffffffffffffff`;
      const { HostConfig, ...body } = sandboxTestBody({ key: proxy.key, folder: proxy.folder });
      const [pistisd, relay] = HostConfig.Mounts;
      const json = { ...body, HostConfig: { ...HostConfig, Mounts: [{ ...pistisd, Source: name }, relay] } };
      const path = `/containers/create?name=pistis-${proxy.key}-sbx_2-g1`;
      expect(await proxy.ask({ method: "POST", path, json })).to.include({ status: 404 });
      const options = { type: "none", o: "bind", device: "/etc" };
      const bad = { Name: name, Labels: volumeTestBody({ key: proxy.key }).Labels, DriverOpts: options };
      await engine({ method: "POST", path: "/v1.41/volumes/create", json: bad });
      expect(await proxy.ask({ method: "POST", path, json })).to.include({ status: 403, rule: "volume_options" });
      await engine({ method: "DELETE", path: `/v1.41/volumes/${name}` });
    });

    it("makes no container on a network that is not this install's, whatever its name", async () => {
      const name = `pistis-${proxy.key}-sbx_3-g1`;
      const stolen = { ...networkTestBody({ key: other.key, subnet: "198.51.100.136/29" }), Name: name };
      const { text } = await engine({ method: "POST", path: "/v1.41/networks/create", json: stolen });
      const { HostConfig, ...body } = sandboxTestBody({ key: proxy.key, folder: proxy.folder });
      const json = { ...body, HostConfig: { ...HostConfig, NetworkMode: name } };
      const answer = await proxy.ask({ method: "POST", path: `/containers/create?name=${name}`, json });
      expect(answer).to.include({ status: 403, rule: "foreign_network" });
      await engine({ method: "DELETE", path: `/v1.41/networks/${JSON.parse(text).Id}` });
    });

    it("puts files into a sandbox at rest, at the one place, and never through a read-only mount", async () => {
      const at = (id: string, path = "/") => `/containers/${id}/archive?path=${encodeURIComponent(path)}`;
      const put = (path: string, body: Uint8Array) => proxy.ask({ method: "PUT", path, body });
      expect(await put(at(own.containerId), tarOf("workspace/note", "hello"))).to.include({ status: 200 });
      for (const path of ["/run/pistis", "/opt/pistis", "/../", "/./", "//", ""]) {
        expect(await put(at(own.containerId, path), tarOf("note", "x")), path).to.include({ status: 403 });
      }
      for (const entry of ["run/pistis/relay.sock", "opt/pistis/pistisd-entry"]) {
        expect(await put(at(own.containerId), tarOf(entry, "evil")), entry).to.include({ status: 500, rule: "" });
      }
      const { text } = await engine({ path: `/v1.41/containers/${own.containerId}/json` });
      expect(JSON.parse(text).State.Status).to.equal("created");
    });

    it("puts no more into a sandbox than its limit, said or not", async () => {
      const path = `/containers/${own.containerId}/archive?path=%2F`;
      const large = Buffer.alloc(300 * 1_024);
      const said = await proxy.ask({ method: "PUT", path, body: large });
      expect(said).to.include({ status: 413, rule: "body_too_large" });
    });

    it("lets an event stream be silent for longer than an answer may wait, and ends it when it stops", async () => {
      const quick = await startProxyForTest({ limits: { stuckMs: 100 } });
      try {
        const silent = sendRaw(quick.socketPath, "GET /events HTTP/1.1\r\nhost: d\r\n\r\n");
        const ended = await Promise.race([silent, pause(300, "still open")]);
        expect(ended).to.equal("still open");
        await quick.close();
        expect(await silent).to.match(/^HTTP\/1\.1 200/);
      } finally {
        await quick.close();
      }
    });

    it("tells of this install's containers as something happens to them, and of no other's", async () => {
      const events = await follow(proxy.socketPath, "/events");
      try {
        const makeAndRemove = async (key: string, ask: typeof engine, folder: string) => {
          const json = sandboxTestBody({ key, folder });
          const path = `/v1.41/containers/create?name=pistis-${key}-sbx_9-g1`;
          const { Id } = idIn(await ask({ method: "POST", path, json }));
          await ask({ method: "DELETE", path: `/v1.41/containers/${Id}?force=1` });
          return Id;
        };
        const foreign = await makeAndRemove(other.key, engine, other.folder);
        const mine = await makeAndRemove(proxy.key, proxy.ask, proxy.folder);
        const text = await events.until((seen) => seen.includes(mine) && seen.includes('"destroy"'));
        expect(text).to.not.contain(foreign);
      } finally {
        events.close();
      }
    });

    it("says that the engine does not answer, and goes on when it does", async () => {
      const lonely = await startProxyForTest({ engineSocketPath: "/nonexistent/docker.sock" });
      try {
        expect(await lonely.ask({ path: "/_ping" })).to.include({ status: 503, rule: "engine_unreachable" });
      } finally {
        await lonely.close();
      }
    });
  });

  it("has left the other install as it was", async () => {
    const { text } = await engine({ path: `/v1.41/containers/${other.containerId}/json` });
    const seen = z.object({ State: z.object({ Status: z.string() }), Name: z.string() }).parse(JSON.parse(text));
    expect(seen).to.deep.equal({ State: { Status: "created" }, Name: `/${other.name}` });
    expect(await engine({ path: `/v1.41/networks/${other.networkId}` })).to.include({ status: 200 });
    expect(await engine({ path: `/v1.41/volumes/${other.volume}` })).to.include({ status: 200 });
  });

  it("takes the place of a docker-proxy that was killed, and of none that answers", async () => {
    const { startDockerProxy } = await import("./docker-proxy.ts");
    const failed = await startDockerProxy(proxy.settings).then(
      () => "started",
      (error: unknown) => error,
    );
    expect(failed).to.have.property("code", "docker_proxy_cannot_listen");
    await rm("/nonexistent", { force: true });
  });
});

type Own = Readonly<{ containerId: string; networkId: string; volume: string }>;

async function makeOwn({ ask, key, folder }: ProxyUnderTest): Promise<Own> {
  const idOf = (answer: { text: string; status: number }) => idIn(answer).Id;
  expect(await ask({ method: "POST", path: "/volumes/create", json: volumeTestBody({ key }) })).to.include({
    status: 201,
  });
  const network = networkTestBody({ key, subnet: "198.51.100.0/29" });
  const networkId = idOf(await ask({ method: "POST", path: "/v1.41/networks/create", json: network }));
  const { HostConfig, ...body } = sandboxTestBody({ key, folder });
  const json = { ...body, HostConfig: { ...HostConfig, NetworkMode: network.Name } };
  const path = `/v1.41/containers/create?name=pistis-${key}-sbx_1-g1`;
  return { containerId: idOf(await ask({ method: "POST", path, json })), networkId, volume: testVolume(key) };
}

function idIn({ text, status }: { text: string; status: number }): { Id: string } {
  expect(status, text).to.equal(201);
  return z.object({ Id: z.string() }).parse(JSON.parse(text));
}

/** The path of an operation with each of the objects in it, plain and in the spellings that other readers take for it. */
function spellings(path: string, names: readonly string[]): string[] {
  const placed = /\{/.test(path) ? names.map((name) => path.replace(/\{(id|name)\}/, name)) : [path];
  return placed.flatMap((place) => [
    place,
    `/v1.41${place}`,
    `/v1.24${place}`,
    `/${place}`,
    `${place}/`,
    `/x/..${place}`,
    `/v1.41/./${place.slice(1)}`,
    `${place}?force=1`,
    place.replace(/\/([a-z])/, "/%2e/$1"),
    place.replaceAll("/", "%2f").replace("%2f", "/"),
    place.toUpperCase(),
    `${place}#/_ping`,
    `/_ping/..${place}`,
    `http://docker${place}`,
  ]);
}

function foreignNames({ path }: Operation, other: Awaited<ReturnType<typeof otherInstall>>): string[] {
  if (path.startsWith("/containers")) return [other.containerId, other.containerId.slice(0, 12), other.name];
  return path.startsWith("/networks") ? [other.networkId] : [other.volume];
}

function queryFor({ method, path }: Operation): string {
  if (!path.endsWith("/archive")) return "";
  if (method === "PUT") return "?path=%2F";
  return method === "HEAD" ? "?path=%2Fopt%2Fpistis%2Fpistisd" : "?path=%2Fetc%2Fpasswd";
}

/** A tar file of one small file. */
function tarOf(name: string, content: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write("0001750\0", 108);
  header.write("0001750\0", 116);
  header.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124);
  header.write("00000000000\0", 136);
  header.write("        ", 148);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  const body = Buffer.alloc(512);
  body.write(content);
  return Buffer.concat([header, body, Buffer.alloc(1_024)]);
}
