import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { type ServiceProcess, serviceProcess } from "#shared/service/service-process.ts";
import type { ProviderName } from "./registry.ts";

/** Holds no key but its own NATS user's. */
const localProviderProcess = serviceProcess({
  name: "provider-local",
  about: "runs sandboxes on this machine, isolated by bubblewrap",
  command: "provider local",
  natsUser: "provider-local",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    PISTIS_INSTALL_ID: variables.PISTIS_INSTALL_ID,
    PISTIS_RELAY_SOCKET: variables.PISTIS_RELAY_SOCKET,
    PISTIS_DATA: variables.PISTIS_DATA,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
    PISTIS_PISTISD: variables.PISTIS_PISTISD,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openProviderService } = await import("./open-provider.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["sandboxes"] });
    await openProviderService(
      {
        kind: "local",
        config,
        nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
        installId: settings.PISTIS_INSTALL_ID,
        relaySocketPath: settings.PISTIS_RELAY_SOCKET,
        folder: settings.PISTIS_DATA,
        pistisdFolder: settings.PISTIS_PISTISD,
        log,
      },
      resources,
    );
    return {};
  },
});

/** By kind, as in `pistis provider <kind>`. */
export const providerProcesses: Readonly<Record<ProviderName, ServiceProcess>> = { local: localProviderProcess };
