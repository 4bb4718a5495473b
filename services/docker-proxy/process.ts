import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds the engine's socket, and no key, no token and no connection to NATS. */
export const dockerProxyProcess = serviceProcess({
  name: "docker-proxy",
  about: "lets through to Docker what the Docker provider needs, and nothing else",
  variables: {
    PISTIS_INSTALL_ID: variables.PISTIS_INSTALL_ID,
    PISTIS_DOCKER_SOCKET: variables.PISTIS_DOCKER_SOCKET,
    PISTIS_DOCKER_PROXY_SOCKET: variables.PISTIS_DOCKER_PROXY_SOCKET,
    PISTIS_RELAY_SOCKETS: variables.PISTIS_RELAY_SOCKETS.optional().describe(
      "the folder of the relay's Unix sockets, the only one that a sandbox may mount; not with sandboxes.docker.relayVolume",
    ),
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { startDockerProxy } = await import("./docker-proxy.ts");
    const { poolCheck } = await import("./networks/pool.ts");
    const { sandboxes } = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["sandboxes"] });
    const { subnets } = sandboxes.docker;
    const proxy = await startDockerProxy({
      installId: settings.PISTIS_INSTALL_ID,
      engineSocketPath: settings.PISTIS_DOCKER_SOCKET,
      socketPath: settings.PISTIS_DOCKER_PROXY_SOCKET,
      relay: relayPlace(sandboxes.docker.relayVolume, settings.PISTIS_RELAY_SOCKETS),
      isInPool: subnets === "engine" ? "engine" : poolCheck(subnets),
      log,
    });
    resources.add("docker-proxy", proxy, ({ close }) => close());
    return { url: `unix://${settings.PISTIS_DOCKER_PROXY_SOCKET}` };
  },
});

/** One of the two: where the relay's sockets are in a volume, no folder of the machine is mounted at all. */
function relayPlace(volume: PistisConfig["sandboxes"]["docker"]["relayVolume"], folder: string | undefined) {
  return { volume, folder: volume === undefined ? folder : undefined };
}
