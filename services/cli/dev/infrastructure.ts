// NATS and PostgreSQL: embedded in the state folder, or one's own by NATS_URL and DATABASE_URL.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Environment } from "#shared/config/interpolate.ts";
import { startNatsServer } from "#shared/embedded/nats-server.ts";
import { startPostgres } from "#shared/embedded/postgres.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { type NatsKeys, natsKeys } from "#shared/nats/keys.ts";
import type { Log } from "#shared/service/log.ts";
import type { Resources } from "#shared/service/resources.ts";
import type { Secrets } from "../state/secrets.ts";
import type { StateFolder } from "../state/state-folder.ts";
import type { Steps } from "./steps.ts";

export type InfrastructureOptions = Readonly<{
  folder: StateFolder;
  secrets: Secrets;
  shards: number;
  environment: Environment;
  steps: Steps;
  log: (service: string) => Log;
}>;

export type Infrastructure = Readonly<{
  nats: { url: string; keys: NatsKeys };
  databaseUrl: string;
  /** Aborts, with the reason, when something embedded ends by itself. */
  died: AbortSignal;
}>;

/** What is started is closed with `resources`. */
export async function openInfrastructure(
  options: InfrastructureOptions,
  resources: Resources,
): Promise<Infrastructure> {
  const nats = await openNats(options, resources);
  const postgres = await openPostgres(options, resources);
  const died = AbortSignal.any([nats.died, postgres.died]);
  return { nats: { url: nats.url, keys: nats.keys }, databaseUrl: postgres.url, died };
}

async function openNats(
  { folder, secrets, shards, environment, steps, log }: InfrastructureOptions,
  resources: Resources,
): Promise<{ url: string; keys: NatsKeys; died: AbortSignal }> {
  const { NATS_URL: url, PISTIS_NATS_KEYS: file } = environment;
  if (url) {
    const keys = file ? await keysIn(file) : secrets.natsKeys;
    return { url, keys, died: new AbortController().signal };
  }
  const options = { stateDir: join(folder.path, "nats"), keys: secrets.natsKeys, shards, log: log("nats-server") };
  const started = steps.run(
    "nats-server",
    () => startNatsServer(options),
    ({ version, durable }) => (durable ? version : `${version}: NOT DURABLE over a power loss; see pistis doctor`),
  );
  const server = resources.add("nats-server", await started, ({ close }) => close());
  return { url: server.url, keys: secrets.natsKeys, died: server.died };
}

async function keysIn(file: string): Promise<NatsKeys> {
  const next = "It is the JSON of natsKeys in a state folder's secrets.json";
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new Refusal("nats_keys_missing", `PISTIS_NATS_KEYS: ${file} cannot be read`, { cause, next });
  });
  try {
    return natsKeys.parse(JSON.parse(text));
  } catch {
    // The cause may quote a key: it is not passed on.
    throw new Refusal("nats_keys_invalid", `PISTIS_NATS_KEYS: ${file} does not hold a key for every NATS user`, {
      next,
    });
  }
}

async function openPostgres(
  { folder, secrets, environment, steps, log }: InfrastructureOptions,
  resources: Resources,
): Promise<{ url: string; died: AbortSignal }> {
  const { DATABASE_URL: url } = environment;
  if (url) return { url, died: new AbortController().signal };
  const options = { stateDir: folder.path, password: secrets.postgresPassword, log: log("postgres") };
  const started = steps.run(
    "PostgreSQL",
    () => startPostgres(options),
    ({ adopted }) => (adopted ? "adopted from an earlier start" : ""),
  );
  return resources.add("PostgreSQL", await started, ({ close }) => close());
}
