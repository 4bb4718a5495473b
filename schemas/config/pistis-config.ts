// pistis.json. Unknown keys are refused; a value may hold `${NAME}`, taken from the environment when it is read.
// Every key has a default, so that an empty file, or none, is valid.
import { z } from "zod";
import { probeSettings } from "#schemas/network/probe-settings.ts";
import { allowSettings } from "#schemas/network/sandbox-network.ts";
import { WARM_MAX } from "#schemas/scheduler/pool.ts";
import { dockerSandboxes } from "./docker-sandboxes.ts";

const price = z.strictObject({
  inputPerMillion: z.number().nonnegative().describe("US dollars per million input tokens"),
  outputPerMillion: z.number().nonnegative(),
  cachedInputPerMillion: z.number().nonnegative().optional().describe("The input price when absent"),
});

export const modelConfig = z.discriminatedUnion("api", [
  z.strictObject({
    api: z.enum(["anthropic", "openai"]),
    model: z.string().min(1).describe("The provider's own name of the model"),
    apiKey: z.string().min(1).describe('Write "${ANTHROPIC_API_KEY}", not the key itself'),
    baseUrl: z.url().optional(),
    outputTokensMax: z.number().int().positive().default(16_000),
    contextTokens: z.number().int().positive().default(200_000),
    price: price.optional(),
  }),
  z.strictObject({
    api: z.literal("openai-compatible"),
    model: z.string().min(1),
    baseUrl: z.url().describe("For example http://127.0.0.1:11434/v1"),
    apiKey: z.string().min(1).optional(),
    outputTokensMax: z.number().int().positive().default(8_000),
    contextTokens: z.number().int().positive().default(32_000),
    price: price.optional(),
  }),
  z.strictObject({ api: z.literal("script") }).describe("Takes its steps from the message; needs no key"),
]);

export const SCRIPT_MODEL = "script";

/** Where nothing is set and nobody looks what there is. */
export const DEFAULT_PROVIDER = "local";

export const pistisConfig = z.strictObject({
  $schema: z.string().optional(),
  models: z
    .record(z.string().regex(/^[a-zA-Z0-9._-]{1,100}$/), modelConfig)
    .default({})
    .describe('Models by the name that people choose. "script" is always there.'),
  defaultModel: z.string().default(SCRIPT_MODEL),
  server: z
    .strictObject({
      host: z.string().default("127.0.0.1").describe("Address that the gateway listens on"),
      port: z.number().int().min(0).max(65_535).default(4180),
    })
    .prefault({}),
  relay: z
    .strictObject({
      host: z.string().default("127.0.0.1"),
      port: z.number().int().min(0).max(65_535).default(4181),
    })
    .prefault({}),
  ledger: z
    .strictObject({
      shards: z.number().int().min(1).max(64).default(8).describe("Fixed at the first start"),
    })
    .prefault({}),
  sandboxes: z
    .strictObject({
      provider: z
        .enum(["local", "docker"])
        .optional()
        .describe("When absent: in pistis dev Docker if its engine answers and has the image, everywhere else local"),
      image: z.string().max(500).optional().describe("What Docker sandboxes are made of; it is never pulled by Pistis"),
      memoryMiB: z.number().int().min(64).default(4_096),
      cpuCores: z.number().min(0.1).default(2),
      processesMax: z.number().int().min(16).default(1_024),
      diskMiB: z.number().int().min(64).default(10_240),
      startMs: z.number().int().min(1_000).default(60_000).describe("How long a sandbox may take to start and join"),
      warm: z
        .number()
        .int()
        .min(0)
        .max(WARM_MAX)
        .default(0)
        .describe("So many sandboxes are kept started that no session has used; a new session gets one at once"),
      warmAgeMsMax: z
        .number()
        .int()
        .min(1_000)
        .default(3_600_000)
        .describe("A sandbox that waited this long for a session is replaced by a new one"),
      allow: allowSettings
        .default([])
        .describe("Hosts that sandboxes may reach: a host name, host:port, or npm, pypi, crates, go. None: no network"),
      internet: z
        .boolean()
        .default(false)
        .describe("Sandboxes may reach every public host, but no private range and no other sandbox"),
      probe: probeSettings.prefault({}).describe("What is tried in every new sandbox before its first command"),
      local: z
        .strictObject({
          readOnly: z
            .record(z.string().startsWith("/"), z.string().min(1))
            .default({})
            .describe("Folders of this machine that every local sandbox sees, read-only: path inside → path here"),
        })
        .prefault({}),
      docker: dockerSandboxes.prefault({}),
    })
    .prefault({}),
  egress: z
    .strictObject({
      nameServers: z
        .array(z.string().max(100))
        .default([])
        .describe("Addresses (address or address:port) that names are resolved at; this machine's own when empty"),
      testAddresses: z
        .array(z.string().max(100))
        .default([])
        .describe("For tests only: ranges such as 192.0.2.0/24 that count as public though they are not"),
    })
    .prefault({}),
  git: z
    .strictObject({
      credentials: z
        .array(
          z.strictObject({
            host: z.string().min(1).describe("Host of the repository's URL, e.g. github.com"),
            username: z.string().min(1).default("x-access-token"),
            token: z.string().min(1).describe('Write "${GITHUB_TOKEN}", not the token itself'),
          }),
        )
        .default([]),
      cloneMs: z.number().int().min(1_000).default(1_800_000),
      bundleMiBMax: z.number().int().positive().default(4_096),
    })
    .prefault({}),
  limits: z
    .strictObject({
      stepsPerTurnMax: z.number().int().positive().default(200).describe("Model requests in one turn"),
      commandMsDefault: z.number().int().positive().default(120_000),
      commandMsMax: z.number().int().positive().default(3_600_000),
      modelSilenceMs: z
        .number()
        .int()
        .positive()
        .default(120_000)
        .describe("A model stream that says nothing for this long is given up"),
      modelRetriesMax: z
        .number()
        .int()
        .nonnegative()
        .default(5)
        .describe("On 429, 529 and 5xx, before the first token"),
      costUsdPerTurnMax: z.number().positive().optional(),
    })
    .prefault({}),
  recovery: z
    .strictObject({
      reattach: z.boolean().default(true),
      reattachMs: z.number().int().positive().default(15_000).describe("How long an unreachable sandbox is waited for"),
    })
    .prefault({}),
});

export type PistisConfig = z.output<typeof pistisConfig>;
export type ModelConfig = z.output<typeof modelConfig>;
