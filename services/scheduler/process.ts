import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

export const schedulerProcess = serviceProcess({
  name: "scheduler",
  about: "decides about sandboxes and asks providers for them",
  natsUser: "scheduler",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    PISTIS_NATS_EDGE_SEED: variables.PISTIS_NATS_EDGE_SEED,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_BLOBS: variables.PISTIS_BLOBS,
    PISTIS_RELAY_URL: variables.PISTIS_RELAY_URL,
    PISTIS_RELAY_KEY: variables.PISTIS_RELAY_KEY,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openScheduler } = await import("./open-scheduler.ts");
    const { openMigratedPool } = await import("#shared/database/pool.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["ledger", "sandboxes"] });
    const database = await openMigratedPool(settings.DATABASE_URL);
    resources.add("database", database, ({ close }) => close());
    await openScheduler(
      {
        config,
        nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
        edgeNats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_EDGE_SEED },
        database,
        blobs: openBlobs(settings.PISTIS_BLOBS),
        relay: { url: settings.PISTIS_RELAY_URL, key: settings.PISTIS_RELAY_KEY },
        log,
      },
      resources,
    );
    return {};
  },
});
