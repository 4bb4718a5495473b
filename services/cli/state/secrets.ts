// Every secret of an install in one file that only its owner may read. Made at the first start; a secret that a newer
// version needs is added at its first start. Called under the state folder's lock only.
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { Fatal } from "#shared/errors/errors.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { natsKeys, newNatsKeys } from "#shared/nats/keys.ts";
import { readIfThere, type StateFolder, writePrivateFile } from "./state-folder.ts";

const secret = z.string().min(20).max(500);

const installId = z
  .string()
  .min(8)
  .max(100)
  .describe("No secret: marks what belongs to this install, such as its sandboxes");

const secretsFile = z.strictObject({
  version: z.literal(1),
  installId,
  adminToken: secret.describe("Opens the HTTP API"),
  relayKey: secret.describe("PISTIS_RELAY_KEY"),
  egressKey: secret.describe("PISTIS_EGRESS_KEY"),
  postgresPassword: secret.describe("Of the embedded database"),
  natsKeys,
});

const written = z.looseObject({ natsKeys: z.looseObject({}).default({}) });

export type Secrets = z.output<typeof secretsFile>;

/** `fresh`: this is the install's first start. Throws a Fatal `secrets_broken` for a file that cannot be used. */
export async function openSecrets(folder: StateFolder): Promise<{ secrets: Secrets; fresh: boolean }> {
  const text = await readIfThere(folder.secrets);
  const found = text === undefined ? { natsKeys: {} } : parsed(written, text, folder);
  const made = newSecrets();
  const secrets = checked(
    secretsFile,
    { ...made, ...found, natsKeys: { ...made.natsKeys, ...found.natsKeys } },
    folder,
  );
  const complete = `${JSON.stringify(secrets, undefined, 2)}\n`;
  if (complete !== text) await writePrivateFile(folder.secrets, complete);
  return { secrets, fresh: text === undefined };
}

/** The token of an install that was started before; `undefined` when there is none. */
export async function readAdminToken(folder: StateFolder): Promise<string | undefined> {
  const text = await readIfThere(folder.secrets);
  return text === undefined ? undefined : parsed(z.looseObject({ adminToken: secret }), text, folder).adminToken;
}

/** Of an install that was started before; `undefined` when there is none. */
export async function readInstallId(folder: StateFolder): Promise<string | undefined> {
  const text = await readIfThere(folder.secrets);
  return text === undefined ? undefined : parsed(z.looseObject({ installId }), text, folder).installId;
}

export function newSecrets(): Secrets {
  return {
    version: 1,
    installId: randomUUID(),
    adminToken: newSecret(),
    relayKey: newSecret(),
    egressKey: newSecret(),
    postgresPassword: newSecret(),
    natsKeys: newNatsKeys(),
  };
}

function parsed<Schema extends z.ZodType>(schema: Schema, text: string, folder: StateFolder): z.output<Schema> {
  try {
    return checked(schema, JSON.parse(text), folder);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's message may quote the file: it is not passed on.
    throw broken(folder, "it is no JSON");
  }
}

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, folder: StateFolder): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw broken(folder, result.error.issues.map(({ path }) => path.join(".") || "the whole file").join(", "));
}

function broken({ secrets, path }: StateFolder, what: string): Fatal {
  return new Fatal("secrets_broken", `${secrets} cannot be used: ${what}`, {
    next: `Put back a good copy; without one, what is in ${path} cannot be opened and a new state folder is needed`,
  });
}
