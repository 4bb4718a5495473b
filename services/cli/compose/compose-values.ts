// Every secret that docker-compose.yml needs, as the lines of an `.env` file. A value that is there stays; one that a newer
// version needs is added.
import { parseEnv } from "node:util";
import { Refusal } from "#shared/errors/errors.ts";
import { CORE_USERS, EDGE_USERS, type NatsUser } from "#shared/nats/keys.ts";
import { newSecrets } from "../state/secrets.ts";

const HEAD = `# The secrets of this install of Pistis, read by docker-compose.yml. Keep a copy of it in a safe place: without it
# nothing that the volumes hold can be opened again. Made by \`npm run compose:env\`.
`;

/** What a person may want to change; as docker-compose.yml has it when it is not set. */
const CHOICES = `
# Where the gateway listens. Put TLS before it when it is more than this machine.
# PISTIS_LISTEN=127.0.0.1:4180
# Your pistis.json instead of infra/compose/pistis.json, and the keys that it names, for the one service that uses each.
# PISTIS_CONFIG_FILE=./pistis.json
# ANTHROPIC_API_KEY=
# OPENAI_API_KEY=
# GITHUB_TOKEN=
# What sandboxes are made of, and how many brains there are.
# PISTIS_SANDBOX_IMAGE=pistis/sandbox
# PISTIS_BRAINS=2
# PISTIS_SERVER_IMAGE=pistis/server
# PISTIS_NATS_IMAGE=nats:2.11-alpine
# PISTIS_POSTGRES_IMAGE=postgres:17-bookworm
`;

/** The file's new text, and the names that were added to it. */
export function completedEnv(text: string | undefined): { text: string; added: string[] } {
  const found = text === undefined ? {} : parseEnv(text);
  checkPairs(found);
  const missing = Object.entries(madeValues()).filter(([name]) => !found[name]);
  const lines = missing.map(([name, value]) => `${name}=${value}\n`).join("");
  const before = text === undefined ? HEAD : text.replace(/([^\n])$/, "$1\n");
  return { text: before + lines + (text === undefined ? CHOICES : ""), added: missing.map(([name]) => name) };
}

/** `edge-setup` → `EDGE_SETUP`. */
export function natsVariables(user: NatsUser): { seed: string; publicKey: string } {
  const name = user.toUpperCase().replaceAll("-", "_");
  return { seed: `PISTIS_NATS_SEED_${name}`, publicKey: `PISTIS_NATS_USER_${name}` };
}

function madeValues(): Record<string, string> {
  const { installId, adminToken, relayKey, egressKey, postgresPassword, natsKeys } = newSecrets();
  const keys = [...CORE_USERS, ...EDGE_USERS].flatMap((user) => {
    const { seed, publicKey } = natsVariables(user);
    return [
      [seed, natsKeys[user].seed],
      [publicKey, natsKeys[user].publicKey],
    ];
  });
  return {
    PISTIS_INSTALL_ID: installId,
    PISTIS_ADMIN_TOKEN: adminToken,
    PISTIS_RELAY_KEY: relayKey,
    PISTIS_EGRESS_KEY: egressKey,
    PISTIS_POSTGRES_PASSWORD: postgresPassword,
    PISTIS_RELAY_VOLUME: `pistis-${installId.slice(0, 8)}-relay-socket`,
    ...Object.fromEntries(keys),
  };
}

/** Half a key pair cannot be completed: the other half would be of another pair. */
function checkPairs(found: NodeJS.Dict<string>): void {
  for (const user of [...CORE_USERS, ...EDGE_USERS]) {
    const { seed, publicKey } = natsVariables(user);
    if (Boolean(found[seed]) === Boolean(found[publicKey])) continue;
    throw new Refusal("env_half_a_key", `Of ${seed} and ${publicKey} only one is set`, {
      next: "Remove that line too, and run it again for a new pair",
    });
  }
}
