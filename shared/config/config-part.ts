// The part of pistis.json that one process may hold. Sections of others are left out before any variable is filled
// in, so a process neither needs nor sees the secrets that they name.
import { type PistisConfig, pistisConfig } from "#schemas/config/pistis-config.ts";

export type ConfigPart = Readonly<{
  /** What it does not list has its defaults. */
  sections: ReadonlyArray<keyof PistisConfig>;
  /** Of the models only the names: each then looks like one that needs no key. */
  modelNames?: boolean;
}>;

/** An unknown section stays, so that reading it finds the mistake. */
export function partOf(file: unknown, { sections, modelNames = false }: ConfigPart): unknown {
  if (typeof file !== "object" || file === null || Array.isArray(file)) return file;
  const foreign = Object.keys(pistisConfig.shape).filter((key) => !sections.some((section) => section === key));
  const own = Object.entries(file).filter(([key]) => !foreign.includes(key));
  return Object.fromEntries([...own, ...(modelNames && "models" in file ? [["models", namesOnly(file.models)]] : [])]);
}

function namesOnly(models: unknown): unknown {
  if (typeof models !== "object" || models === null) return models;
  return Object.fromEntries(Object.keys(models).map((name) => [name, { api: "script" }]));
}
