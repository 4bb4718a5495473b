import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds the credentials of code hosts, and no key of a model. */
export const publisherProcess = serviceProcess({
  name: "publisher",
  about: "copies repositories into sandboxes",
  natsUser: "publisher",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_BLOBS: variables.PISTIS_BLOBS,
    PISTIS_RELAY_URL: variables.PISTIS_RELAY_URL,
    PISTIS_RELAY_KEY: variables.PISTIS_RELAY_KEY,
    PISTIS_DATA: variables.PISTIS_DATA,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openPublisher } = await import("./open-publisher.ts");
    const { openMigratedPool } = await import("#shared/database/pool.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, {
      sections: ["ledger", "git", "recovery"],
    });
    const database = await openMigratedPool(settings.DATABASE_URL);
    resources.add("database", database, ({ close }) => close());
    await openPublisher(
      {
        config,
        nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
        database,
        blobs: openBlobs(settings.PISTIS_BLOBS),
        relay: { url: settings.PISTIS_RELAY_URL, key: settings.PISTIS_RELAY_KEY },
        folder: settings.PISTIS_DATA,
        log,
      },
      resources,
    );
    return {};
  },
});
