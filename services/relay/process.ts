import { readConfigPart } from "#shared/config/read-config.ts";
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
    PISTIS_RELAY_SOCKET: variables.PISTIS_RELAY_SOCKET.optional().describe(
      "also listens on this Unix socket, for local sandboxes; in a folder with nothing else",
    ),
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
      socketPath: settings.PISTIS_RELAY_SOCKET,
      log,
    };
    return openRelay(parts, resources);
  },
});
