// pistis.json, read once at the start. Everything that is wrong with it is said at once, by key, with what was found
// and what is allowed. The value of a secret is never part of a message.
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { z } from "zod";
import { type PistisConfig, pistisConfig, SCRIPT_MODEL } from "#schemas/config/pistis-config.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { allowedAt, keysAt, memberOf, type Path } from "./allowed.ts";
import { type ConfigPart, partOf } from "./config-part.ts";
import { didYouMean } from "./did-you-mean.ts";
import { type Environment, interpolate } from "./interpolate.ts";

const PROBLEMS_MAX = 20;
const SHOWN_CHARACTERS_MAX = 60;
const SECRET_KEY = /key|token|secret|password|credential/i;

/** The config in `file`; all defaults when it is undefined. Throws Refusal `config_missing` or `config_invalid`. */
export async function readConfig(file: string | undefined, environment: Environment): Promise<PistisConfig> {
  if (file === undefined) return pistisConfig.parse({});
  return configOf(await readJson(file), file, environment);
}

/** Like readConfig, for a process that may hold a part of the file only (config-part.ts). */
export async function readConfigPart(
  file: string | undefined,
  environment: Environment,
  part: ConfigPart,
): Promise<PistisConfig> {
  if (file === undefined) return pistisConfig.parse({});
  return configOf(partOf(await readJson(file), part), file, environment);
}

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    const next = "Check the path after --config, or in PISTIS_CONFIG";
    throw new Refusal("config_missing", `${file} cannot be read`, { cause, next });
  });
  return parseJson(text, file);
}

/** The config that a parsed file stands for. Folders are relative to the file's own. */
export function configOf(written: unknown, file: string, environment: Environment): PistisConfig {
  const { value, unset, fromEnvironment } = interpolate(written, environment);
  if (unset.length > 0) {
    const missing = unset.map(
      ({ path, variable }) => `${keyOf(path)}: the environment variable ${variable} is not set`,
    );
    throw invalid(file, missing, `Set ${[...new Set(unset.map(({ variable }) => variable))].join(", ")}`);
  }
  const parsed = pistisConfig.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, value, fromEnvironment));
    throw invalid(file, problems, `Correct ${file}; its schema is schemas/generated/pistis.schema.json`);
  }
  const mismatches = mismatchesOf(parsed.data);
  if (mismatches.length > 0) throw invalid(file, mismatches, `Correct ${file}`);
  return withFoldersOf(parsed.data, dirname(resolve(file)));
}

function invalid(file: string, problems: readonly string[], next: string): Refusal {
  const shown = problems.slice(0, PROBLEMS_MAX);
  const more = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : [];
  return new Refusal("config_invalid", [`${file} is not valid`, ...shown, ...more].join("\n  "), { next });
}

/** The parser's own message may quote the file, secrets included: only the place in it is passed on. */
function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    const reason = error instanceof Error ? error.message : "";
    const place = /\(line \d+ column \d+\)/.exec(reason)?.[0];
    const token = /^Unexpected (?:token '.'|end of JSON input)/s.exec(reason)?.[0];
    throw invalid(file, [`It is no JSON: ${token ?? `mistake at ${place ?? "an unknown place"}`}`], `Correct ${file}`);
  }
}

type Issue = z.core.$ZodIssue;

function problemsOf(issue: Issue, value: unknown, fromEnvironment: (path: Path) => string | undefined): string[] {
  const path = issue.path.filter((part) => typeof part !== "symbol");
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownKey(path, key, value));
  if (issue.code === "invalid_key") return [badName(path, issue)];
  const found = foundAt(path, value, fromEnvironment(path));
  return [`${keyOf(path)}: found ${found}, allowed is ${allowedOf(issue, path, value)}`];
}

function unknownKey(path: Path, key: string, value: unknown): string {
  const known = keysAt(path, value);
  const near = didYouMean(key, known);
  const advice = near === undefined ? `allowed are ${known.join(", ")}` : `did you mean ${near}?`;
  return `${keyOf([...path, key])}: unknown key, ${advice}`;
}

function badName(path: Path, issue: Extract<Issue, { code: "invalid_key" }>): string {
  const reasons = issue.issues.map(({ message }) => message.replace(/^Invalid string: /, "")).join("; ");
  return `${keyOf(path)}: found the name ${JSON.stringify(path.at(-1))}, which ${reasons}`;
}

function allowedOf(issue: Issue, path: Path, value: unknown): string {
  if (issue.code === "invalid_union" && "options" in issue && Array.isArray(issue.options)) {
    return `one of ${issue.options.map((option) => JSON.stringify(option)).join(", ")}`;
  }
  return allowedAt(path, value);
}

function foundAt(path: Path, value: unknown, variables: string | undefined): string {
  const found = path.reduce<unknown>(memberOf, value);
  if (found === undefined) return "nothing";
  if (Array.isArray(found)) return "a list";
  if (typeof found === "object" && found !== null) return "an object";
  if (typeof found !== "string") return JSON.stringify(found);
  const origin = variables === undefined ? "" : ` from ${variables}`;
  if (found === "") return `an empty text${origin}`;
  if (variables !== undefined || SECRET_KEY.test(String(path.at(-1)))) return `a text (not shown)${origin}`;
  return JSON.stringify(found.length > SHOWN_CHARACTERS_MAX ? `${found.slice(0, SHOWN_CHARACTERS_MAX)}…` : found);
}

/** `models.claude.apiKey`, `git.credentials[0].host`. */
function keyOf(path: Path): string {
  if (path.length === 0) return "the whole file";
  return path.reduce<string>((key, part) => (typeof part === "number" ? `${key}[${part}]` : dotted(key, part)), "");
}

function dotted(key: string, part: string): string {
  const name = /^[\w-]+$/.test(part) ? part : JSON.stringify(part);
  return key === "" ? name : `${key}.${name}`;
}

/** What the schema cannot say: which values must fit each other. */
function mismatchesOf(config: PistisConfig): string[] {
  const names = [SCRIPT_MODEL, ...Object.keys(config.models).filter((name) => name !== SCRIPT_MODEL)];
  const unknown = names.includes(config.defaultModel)
    ? []
    : [`defaultModel: found ${JSON.stringify(config.defaultModel)}, allowed is one of ${names.join(", ")}`];
  const script = config.models[SCRIPT_MODEL];
  const taken =
    script === undefined || script.api === "script"
      ? []
      : [`models.script: found the api "${script.api}", allowed is "script": the name is taken`];
  return [...unknown, ...taken];
}

function withFoldersOf(config: PistisConfig, folder: string): PistisConfig {
  const readOnly = Object.fromEntries(
    Object.entries(config.sandboxes.local.readOnly).map(([inside, here]) => [inside, resolve(folder, here)]),
  );
  return { ...config, sandboxes: { ...config.sandboxes, local: { ...config.sandboxes.local, readOnly } } };
}
