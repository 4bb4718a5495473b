// The calls that the provider makes, through docker-proxy to the real engine.
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { Resources } from "#shared/service/resources.ts";
import { startDockerProxy } from "../docker-proxy.ts";
import { proxyLimits } from "../limits.ts";
import { networkTestBody, sandboxTestBody, volumeTestBody } from "../testing/bodies.ts";
import { idIn, makeOwn, type Own } from "../testing/own-install.ts";
import {
  engine,
  type OtherInstall,
  otherInstall,
  type ProxyUnderTest,
  startProxyForTest,
} from "../testing/proxy-under-test.ts";
import { follow, sendRaw } from "../testing/raw-request.ts";
import { largeTarOf, sparseTar, tarOf } from "../testing/tar-files.ts";

describe("docker-proxy, with the provider's own calls", () => {
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

  const BOMB_BYTES = 64 * 1_024 * 1_024;
  const bombs: Readonly<Record<string, () => Buffer>> = {
    "a gzip bomb": () => gzipSync(largeTarOf("workspace/gzip", BOMB_BYTES)),
    "a sparse file": () => sparseTar("workspace/sparse", BOMB_BYTES),
  };
  for (const [what, make] of Object.entries(bombs)) {
    it(`lets no tar file through that is ${what}, which the engine would unpack`, async () => {
      const path = `/containers/${own.containerId}/archive?path=%2F`;
      const body = make();
      expect(body.byteLength).to.be.lessThan(proxyLimits.smallArchiveBytesMax);
      const before = await diskOf(own.containerId);
      const refused = await proxy.ask({ method: "PUT", path, body });
      expect(refused).to.include({ status: 403, rule: "archive_not_plain" });
      expect(await diskOf(own.containerId)).to.equal(before);
      const taken = await engine({ method: "PUT", path: `/v1.41${path}`, body });
      expect(taken.status, taken.text).to.equal(200);
      expect(await diskOf(own.containerId)).to.be.at.least(before + BOMB_BYTES);
    });
  }

  it("lets no tar file through whose entries are of any other kind", async () => {
    const path = `/containers/${own.containerId}/archive?path=%2F`;
    const plain = tarOf("workspace/plain", "x");
    const ofType = (type: string) => {
      const body = Buffer.from(plain);
      body.write(type, 156);
      return body;
    };
    const unsized = Buffer.from(plain);
    unsized.writeUInt8(0x80, 124);
    const odd = [..."1346789ASVLKNDxgX\0"].map(ofType);
    const bodies = [...odd, unsized, Buffer.concat([plain, plain]), Buffer.concat([Buffer.from("BZh9"), plain])];
    for (const body of bodies) {
      expect(await proxy.ask({ method: "PUT", path, body })).to.include({ status: 403, rule: "archive_not_plain" });
    }
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

  it("does not take the place of a docker-proxy that answers", async () => {
    const failed = await startDockerProxy(proxy.settings).then(
      () => "started",
      (error: unknown) => error,
    );
    expect(failed).to.have.property("code", "docker_proxy_cannot_listen");
  });
});

const sized = z.object({ SizeRw: z.number().optional() });

async function diskOf(containerId: string): Promise<number> {
  const { text } = await engine({ path: `/v1.41/containers/${containerId}/json?size=1` });
  return sized.parse(JSON.parse(text)).SizeRw ?? 0;
}
