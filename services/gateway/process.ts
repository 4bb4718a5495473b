import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds the admin token. Of the models it knows the names, not the keys. */
export const gatewayProcess = serviceProcess({
  name: "gateway",
  about: "the HTTP API",
  natsUser: "gateway",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_BLOBS: variables.PISTIS_BLOBS,
    PISTIS_RELAY_URL: variables.PISTIS_RELAY_URL,
    PISTIS_RELAY_KEY: variables.PISTIS_RELAY_KEY,
    PISTIS_ADMIN_TOKEN: variables.PISTIS_ADMIN_TOKEN,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openGateway } = await import("./open-gateway.ts");
    const { openMigratedDatabase } = await import("#shared/database/migrated.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, {
      sections: ["defaultModel", "server", "ledger", "recovery", "sandboxes"],
      modelNames: true,
    });
    const database = await openMigratedDatabase(settings.DATABASE_URL);
    resources.add("database", database, ({ close }) => close());
    const parts = {
      config,
      adminToken: settings.PISTIS_ADMIN_TOKEN,
      nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
      database,
      blobs: openBlobs(settings.PISTIS_BLOBS),
      relay: { url: settings.PISTIS_RELAY_URL, key: settings.PISTIS_RELAY_KEY },
      log,
    };
    return openGateway(parts, resources);
  },
});
