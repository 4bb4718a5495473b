// docker-proxy in front of the real engine, with an install of its own, and another install beside it as a canary.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { installKey, LABELS } from "#shared/docker/names.ts";
import { newId } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { type DockerProxyDependencies, startDockerProxy } from "../docker-proxy.ts";
import { poolCheck } from "../networks/pool.ts";
import { networkTestBody, sandboxTestBody, testVolume, volumeTestBody } from "./bodies.ts";
import { type Ask, ask } from "./raw-request.ts";

export const ENGINE_SOCKET = "/var/run/docker.sock";
/** A part of documentation range, which nothing else on the engine uses. */
export const TEST_POOL = "198.51.100.0/25";

export type ProxyUnderTest = Awaited<ReturnType<typeof startProxyForTest>>;

export async function startProxyForTest(changes: Partial<DockerProxyDependencies> = {}) {
  const resources = new Resources();
  const folder = await mkdtemp(join(tmpdir(), "pistis-docker-proxy-"));
  resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
  await writeFile(join(folder, "relay.sock"), "not touched\n");
  const installId = newId("event");
  const key = installKey(installId);
  resources.add("objects", key, removeObjects);
  const socketPath = join(folder, "proxy.sock");
  const settings: DockerProxyDependencies = {
    installId,
    engineSocketPath: ENGINE_SOCKET,
    socketPath,
    relay: { folder, volume: undefined },
    isInPool: poolCheck(TEST_POOL),
    log: silentLog,
    ...changes,
  };
  const proxy = await startDockerProxy(settings);
  resources.add("proxy", proxy, ({ close }) => close());
  return {
    key,
    folder,
    socketPath,
    settings,
    resources,
    ask: (request: Ask) => ask(socketPath, request),
    close: () => resources.close(),
  };
}

/** The engine itself, past the proxy. */
export function engine(request: Ask) {
  return ask(ENGINE_SOCKET, { ...request, headers: ["connection: close"] });
}

const created = z.object({ Id: z.string() });

export type OtherInstall = Awaited<ReturnType<typeof otherInstall>>;

/** A stopped container, a network and a volume of another install, made past the proxy. */
export async function otherInstall(subnet: string) {
  const resources = new Resources();
  const key = installKey(newId("event"));
  resources.add("objects", key, removeObjects);
  const folder = await mkdtemp(join(tmpdir(), "pistis-other-install-"));
  resources.add("folder", folder, (path) => rm(path, { recursive: true, force: true }));
  const name = `pistis-${key}-sbx_1-g1`;
  await engine({ method: "POST", path: "/v1.41/volumes/create", json: volumeTestBody({ key }) });
  const network = await engine({
    method: "POST",
    path: "/v1.41/networks/create",
    json: networkTestBody({ key, subnet }),
  });
  const body = { ...sandboxTestBody({ key, folder }), Entrypoint: ["/bin/sleep", "1000"] };
  const made = await engine({ method: "POST", path: `/v1.41/containers/create?name=${name}`, json: body });
  return {
    key,
    folder,
    name,
    containerId: created.parse(JSON.parse(made.text)).Id,
    networkId: created.parse(JSON.parse(network.text)).Id,
    volume: testVolume(key),
    close: () => resources.close(),
  };
}

const listed = z.array(z.object({ Id: z.string() }));
const volumes = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullish() });

/** Removes what carries the label of this install, past the proxy. */
async function removeObjects(key: string): Promise<void> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`${LABELS.install}=${key}`] }));
  const list = async (path: string) => JSON.parse((await engine({ path: `/v1.41${path}` })).text);
  for (const { Id } of listed.parse(await list(`/containers/json?all=1&filters=${filters}`))) {
    await engine({ method: "DELETE", path: `/v1.41/containers/${Id}?force=1&v=1` });
  }
  for (const { Id } of listed.parse(await list(`/networks?filters=${filters}`))) {
    await engine({ method: "DELETE", path: `/v1.41/networks/${Id}` });
  }
  for (const { Name } of volumes.parse(await list(`/volumes?filters=${filters}`)).Volumes ?? []) {
    await engine({ method: "DELETE", path: `/v1.41/volumes/${Name}` });
  }
}
