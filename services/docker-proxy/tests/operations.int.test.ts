// docker-proxy in front of the real engine. Beside its install is another one, whose container, network and volume are
// canaries: after everything that is tried here they are as they were.
import { expect } from "chai";
import { z } from "zod";
import { Resources } from "#shared/service/resources.ts";
import { type Operation, oddOperations, operations } from "../testing/engine-operations.ts";
import { makeOwn, type Own } from "../testing/own-install.ts";
import {
  engine,
  type OtherInstall,
  otherInstall,
  type ProxyUnderTest,
  startProxyForTest,
} from "../testing/proxy-under-test.ts";

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

describe("docker-proxy, of the engine's own list of operations", () => {
  let proxy: ProxyUnderTest;
  let other: OtherInstall;
  let own: Own;
  const resources = new Resources();

  before(async () => {
    proxy = resources.add("proxy", await startProxyForTest(), ({ close }) => close());
    other = resources.add("other install", await otherInstall("198.51.100.128/29"), ({ close }) => close());
    own = await makeOwn(proxy);
  });

  after(() => resources.close());

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

  it("has left the other install as it was", async () => {
    const { text } = await engine({ path: `/v1.41/containers/${other.containerId}/json` });
    const seen = z.object({ State: z.object({ Status: z.string() }), Name: z.string() }).parse(JSON.parse(text));
    expect(seen).to.deep.equal({ State: { Status: "created" }, Name: `/${other.name}` });
    expect(await engine({ path: `/v1.41/networks/${other.networkId}` })).to.include({ status: 200 });
    expect(await engine({ path: `/v1.41/volumes/${other.volume}` })).to.include({ status: 200 });
  });
});

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

function foreignNames({ path }: Operation, other: OtherInstall): string[] {
  if (path.startsWith("/containers")) return [other.containerId, other.containerId.slice(0, 12), other.name];
  return path.startsWith("/networks") ? [other.networkId] : [other.volume];
}

function queryFor({ method, path }: Operation): string {
  if (!path.endsWith("/archive")) return "";
  if (method === "PUT") return "?path=%2F";
  return method === "HEAD" ? "?path=%2Fopt%2Fpistis%2Fpistisd" : "?path=%2Fetc%2Fpasswd";
}
