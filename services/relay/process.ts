import { readConfigPart } from "#shared/config/read-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds its admin key and hashed passes, nothing else: sandboxes talk to it. */
export const relayProcess = serviceProcess({
  name: "relay",
  about: "where sandboxes and services meet",
  natsUser: "relay",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    PISTIS_RELAY_KEY: variables.PISTIS_RELAY_KEY,
    PISTIS_RELAY_SOCKETS: variables.PISTIS_RELAY_SOCKETS.optional().describe(
      "also listens here, on a Unix socket for each sandbox; a folder with nothing else in it",
    ),
    PISTIS_EGRESS_URL: variables.PISTIS_EGRESS_URL.optional().describe(
      "the egress service: unix:/path or tcp://host:port; no way out of sandboxes without",
    ),
    PISTIS_EGRESS_KEY: variables.PISTIS_EGRESS_KEY.optional().describe("what the egress service knows the relay by"),
    PISTIS_DATA: variables.PISTIS_DATA,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openRelay } = await import("./open-relay.ts");
    const parts = {
      config: await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["relay"] }),
      nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
      key: settings.PISTIS_RELAY_KEY,
      folder: settings.PISTIS_DATA,
      socketFolder: settings.PISTIS_RELAY_SOCKETS,
      egress: egressOf(settings),
      log,
    };
    return openRelay(parts, resources);
  },
});

function egressOf(settings: { PISTIS_EGRESS_URL?: string | undefined; PISTIS_EGRESS_KEY?: string | undefined }) {
  const { PISTIS_EGRESS_URL: address, PISTIS_EGRESS_KEY: key } = settings;
  if (address === undefined && key === undefined) return undefined;
  if (address !== undefined && key !== undefined) return { address, key };
  throw new Refusal("egress_half_set", "One of PISTIS_EGRESS_URL and PISTIS_EGRESS_KEY is set without the other", {
    next: "Set both, or neither where sandboxes have no network",
  });
}
