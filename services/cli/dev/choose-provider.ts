// Where the sandboxes of `pistis dev` run, when nobody says where.
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import { dockerReadiness } from "#services/providers/docker/readiness.ts";
import type { ProviderName } from "#services/providers/registry.ts";

export type Chosen = Readonly<{ kind: ProviderName; why: string }>;

/** What is set; else Docker when its engine answers and has the image, else local. */
export async function chooseProvider(sandboxes: PistisConfig["sandboxes"]): Promise<Chosen> {
  if (sandboxes.provider !== undefined) return { kind: sandboxes.provider, why: "as set" };
  const { ready, why } = await dockerReadiness(sandboxes);
  return { kind: ready ? "docker" : "local", why };
}
