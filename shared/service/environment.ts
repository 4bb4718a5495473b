// What a process may be told by its environment: one schema per variable, so that a service lists the ones it holds
// and gets no other. A value is never part of a message: it may be a secret.
import { z } from "zod";
import { parseEgressAddress } from "#schemas/network/egress-pipe.ts";
import type { Environment } from "#shared/config/interpolate.ts";
import { Refusal } from "#shared/errors/errors.ts";

const text = z.string().min(1).max(4_096);
const key = z.string().min(16).max(500);
const seed = z.string().regex(/^SU[A-Z2-7]{56}$/, "is no seed of a NATS user (SU...)");

/** Every variable that any of the services reads. */
export const variables = {
  NATS_URL: z.url({ protocol: /^(nats|tls)$/ }).describe("nats-server, as nats://host:port"),
  PISTIS_NATS_SEED: seed.describe("nkey seed of this service's own NATS user"),
  PISTIS_NATS_EDGE_SEED: seed.describe("nkey seed of its second user, in the account EDGE"),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }).describe("PostgreSQL, migrated by pistis setup"),
  PISTIS_BLOBS: text.describe("folder of what is too large for a ledger message; one for all services"),
  PISTIS_RELAY_URL: z.url({ protocol: /^https?$/ }).describe("where the relay is reached"),
  PISTIS_RELAY_KEY: key.describe("the relay's admin key"),
  PISTIS_RELAY_SOCKETS: text.describe(
    "the folder of the sandboxes' own Unix sockets at the relay, with nothing else in it",
  ),
  PISTIS_EGRESS_URL: text
    .refine((value) => parseEgressAddress(value) !== undefined, "is neither unix:/path nor tcp://host:port")
    .describe("where the relay reaches the egress service: unix:/path or tcp://host:port"),
  PISTIS_EGRESS_KEY: key.describe("what the relay shows to the egress service; no other process has it"),
  PISTIS_DOCKER_SOCKET: text.default("/var/run/docker.sock").describe("the Docker engine's Unix socket"),
  PISTIS_DOCKER_PROXY_SOCKET: text.describe("where docker-proxy listens; whoever may open it may make sandboxes"),
  PISTIS_ADMIN_TOKEN: z.string().min(20).max(500).describe("opens the HTTP API"),
  PISTIS_INSTALL_ID: z.string().min(8).max(100).describe("marks the sandboxes of this install; no secret"),
  PISTIS_DATA: text.describe("folder that only this process uses"),
  PISTIS_PISTISD: text.optional().describe("folder of what npm run build:pistisd makes; this installation's without"),
  PISTIS_CONFIG: text.optional().describe("pistis.json; all defaults without"),
  PISTIS_BRAIN_NAME: z.string().min(1).max(100).optional().describe("shown to people; the host's name without"),
  PISTIS_HEALTH_FILE: text
    .optional()
    .describe("a file whose age says that it serves: written every 5 s, gone when it does not"),
  PISTIS_LOG_LEVEL: z.enum(["debug", "info", "warn", "error"]).default("info").describe("debug, info, warn or error"),
};

export type VariableName = keyof typeof variables;

/** `VARIABLE  what it is`, one line each, for --help. */
export function variableHelp(shape: z.ZodRawShape): string {
  const names = Object.keys(shape);
  const width = Math.max(...names.map((name) => name.length));
  return Object.entries(shape)
    .map(([name, schema]) => `  ${name.padEnd(width)}  ${z.globalRegistry.get(schema)?.description ?? ""}`)
    .join("\n");
}

/** Throws a Refusal `environment_invalid` that names every variable that is missing or wrong. Empty counts as unset. */
export function readVariables<Shape extends z.ZodRawShape>(
  shape: Shape,
  environment: Environment,
  command: string,
): z.output<z.ZodObject<Shape>> {
  const given = Object.fromEntries(Object.keys(shape).map((name) => [name, environment[name] || undefined]));
  const parsed = z.object(shape).safeParse(given);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => {
    const name = String(path[0]);
    return given[name] === undefined ? `${name} is not set` : `${name}: ${message}`;
  });
  throw new Refusal("environment_invalid", problems.join("; "), { next: `\`${command} --help\` says what each is` });
}
