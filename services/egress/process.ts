import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds the key that the relay shows, nothing else: sandboxes talk to it. */
export const egressProcess = serviceProcess({
  name: "egress",
  about: "lets sandboxes reach the hosts that they may",
  natsUser: "egress",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    PISTIS_EGRESS_URL: variables.PISTIS_EGRESS_URL,
    PISTIS_EGRESS_KEY: variables.PISTIS_EGRESS_KEY,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openEgress } = await import("./open-egress.ts");
    const parts = {
      config: await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["egress"] }),
      nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
      address: settings.PISTIS_EGRESS_URL,
      key: settings.PISTIS_EGRESS_KEY,
      log,
    };
    await openEgress(parts, resources);
    return {};
  },
});
