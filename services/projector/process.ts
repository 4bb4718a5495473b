import { openBlobs } from "#shared/blobs/blobs.ts";
import { readConfigPart } from "#shared/config/read-config.ts";
import { variables } from "#shared/service/environment.ts";
import { serviceProcess } from "#shared/service/service-process.ts";

export const projectorProcess = serviceProcess({
  name: "projector",
  about: "copies the ledger into PostgreSQL and keeps the read models",
  natsUser: "projector",
  variables: {
    NATS_URL: variables.NATS_URL,
    PISTIS_NATS_SEED: variables.PISTIS_NATS_SEED,
    DATABASE_URL: variables.DATABASE_URL,
    PISTIS_BLOBS: variables.PISTIS_BLOBS,
    PISTIS_CONFIG: variables.PISTIS_CONFIG,
  },
  open: async (settings, { environment, log, resources }) => {
    const { openProjector } = await import("./open-projector.ts");
    const { openMigratedDatabase } = await import("#shared/database/migrated.ts");
    const config = await readConfigPart(settings.PISTIS_CONFIG, environment, { sections: ["ledger"] });
    const database = await openMigratedDatabase(settings.DATABASE_URL);
    resources.add("database", database, ({ close }) => close());
    const nats = { url: settings.NATS_URL, seed: settings.PISTIS_NATS_SEED };
    await openProjector({ config, nats, database, blobs: openBlobs(settings.PISTIS_BLOBS), log }, resources);
    return {};
  },
});
