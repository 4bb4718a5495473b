import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { type ServiceProcess, serviceProcess } from "#shared/service/service-process.ts";
import type { ProviderName } from "./registry.ts";

const common = {
  NATS_URL: variables.NATS_URL,
  PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
  PISTIS_INSTALL_ID: variables.PISTIS_INSTALL_ID,
  PISTIS_RELAY_SOCKETS: variables.PISTIS_RELAY_SOCKETS,
  PISTIS_CONFIG: variables.PISTIS_CONFIG,
  PISTIS_PISTISD: variables.PISTIS_PISTISD,
};

/** Holds no key but its own NATS user's. */
const localProviderProcess = serviceProcess({
  name: "provider-local",
  about: "runs sandboxes on this machine, isolated by bubblewrap",
  command: "provider local",
  natsUser: "provider-local",
  variables: { ...common, PISTIS_DATA: variables.PISTIS_DATA },
  open: async (settings, { environment, log, resources }) => {
    const { openProviderService } = await import("./open-provider.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["sandboxes"] });
    const own = { kind: "local", stateDir: settings.PISTIS_DATA } as const;
    await openProviderService({ own, config, ...partsOf(settings), log }, resources);
    return {};
  },
});

/** Holds no key but its own NATS user's; of Docker, what sandboxes.docker.host lets it do. */
const dockerProviderProcess = serviceProcess({
  name: "provider-docker",
  about: "runs sandboxes as containers of a Docker engine",
  command: "provider docker",
  natsUser: "provider-docker",
  variables: common,
  open: async (settings, { environment, log, resources }) => {
    const { openProviderService } = await import("./open-provider.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["sandboxes"] });
    const own = { kind: "docker", stopAtClose: false } as const;
    await openProviderService({ own, config, ...partsOf(settings), log }, resources);
    return {};
  },
});

type Settings = Readonly<{
  NATS_URL: string;
  PISTIS_NATS_SEED: string;
  PISTIS_INSTALL_ID: string;
  PISTIS_RELAY_SOCKETS: string;
  PISTIS_PISTISD?: string | undefined;
}>;

function partsOf(settings: Settings) {
  return {
    nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
    installId: settings.PISTIS_INSTALL_ID,
    relaySocketFolder: settings.PISTIS_RELAY_SOCKETS,
    pistisdFolder: settings.PISTIS_PISTISD,
  };
}

/** By kind, as in `pistis provider <kind>`. */
export const providerProcesses: Readonly<Record<ProviderName, ServiceProcess>> = {
  local: localProviderProcess,
  docker: dockerProviderProcess,
};
