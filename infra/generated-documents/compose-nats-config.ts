// The configuration of the nats-server in docker-compose.yml: the same accounts and rights as everywhere, with the users'
// public keys taken from its environment, which has them from `.env`.
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { natsVariables } from "#services/cli/compose/compose-values.ts";
import { CORE_USERS, EDGE_USERS, newNatsKeys } from "#shared/nats/keys.ts";
import { natsServerConfig } from "#shared/nats/server-config.ts";

const HEAD = `# Made by \`npm run generate\` from shared/nats; the keys are those of the environment, which docker-compose.yml sets.
# For another \`ledger.shards\` in pistis.json than the default, make one with \`pistis nats-config\`.
http: "127.0.0.1:8222"
`;

export function composeNatsConfig(): string {
  const keys = newNatsKeys();
  const { shards } = pistisConfig.parse({}).ledger;
  const options = { host: "0.0.0.0", port: 4_222, storeDir: "/data", pidFile: "/tmp/nats-server.pid" };
  const text = natsServerConfig(keys, { ...options, shards, syncAlways: true });
  const withVariables = [...CORE_USERS, ...EDGE_USERS].reduce(
    (config, user) => config.replaceAll(keys[user].publicKey, () => `$${natsVariables(user).publicKey}`),
    text,
  );
  return HEAD + withVariables;
}
