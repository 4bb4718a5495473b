import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

/** Holds the models' keys, and no credential of a code host. */
export const brainProcess = serviceProcess({
  name: "brain",
  about: "owns the turns: asks the models, sends calls to sandboxes",
  natsUser: "brain",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_BLOBS: variables.PISTIS_BLOBS,
    PISTIS_RELAY_URL: variables.PISTIS_RELAY_URL,
    PISTIS_RELAY_KEY: variables.PISTIS_RELAY_KEY,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
    PISTIS_BRAIN_NAME: variables.PISTIS_BRAIN_NAME,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openBrain } = await import("./open-brain.ts");
    const { openMigratedPool } = await import("#shared/database/pool.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, {
      sections: ["models", "defaultModel", "ledger", "limits", "recovery", "sandboxes"],
    });
    const database = await openMigratedPool(settings.DATABASE_URL);
    resources.add("database", database, ({ close }) => close());
    await openBrain(
      {
        config,
        nats: { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED },
        database,
        blobs: openBlobs(settings.PISTIS_BLOBS),
        relay: { url: settings.PISTIS_RELAY_URL, key: settings.PISTIS_RELAY_KEY },
        name: settings.PISTIS_BRAIN_NAME,
        log,
      },
      resources,
    );
    return {};
  },
});
