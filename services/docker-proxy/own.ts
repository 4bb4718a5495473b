// Whose an object is: read from the engine's own labels, never taken from its name. What is done to an object is then done
// to the id that was looked at, so a name that changes hands in between changes nothing.
import { z } from "zod";
import { LABELS, ROLES } from "#shared/docker/names.ts";
import { ask, assertOk, type Engine, type EngineAnswer, read } from "./engine/engine.ts";
import { forbidden } from "./http/refused.ts";

export type Own = Readonly<{ engine: Engine; key: string }>;
export type Role = (typeof ROLES)[number];

const labels = z.record(z.string(), z.string()).nullish();
const id = z.string().regex(/^[0-9a-f]{64}$/);
const role = z.enum(ROLES);

const container = z.object({ Id: id, Config: z.object({ Labels: labels }), State: z.object({ Status: z.string() }) });

export type OwnContainer = Readonly<{ id: string; role: Role; status: string; answer: EngineAnswer }>;

/** Throws Refused 403 `foreign_container`, or the engine's own 404. */
export async function ownContainer({ engine, key }: Own, name: string): Promise<OwnContainer> {
  const answer = await ask(engine, { method: "GET", path: `/containers/${name}/json` });
  assertOk(answer);
  const { Id, Config, State } = read(container, answer);
  return { id: Id, role: ownRole(key, Config.Labels, "container", name), status: State.Status, answer };
}

const network = z.object({ Id: id, Labels: labels });

/** The full id of a network. Throws Refused 403 `foreign_network`, or the engine's own 404. */
export async function ownNetwork({ engine, key }: Own, name: string): Promise<string> {
  const answer = await ask(engine, { method: "GET", path: `/networks/${name}` });
  assertOk(answer);
  const { Id, Labels } = read(network, answer);
  ownRole(key, Labels, "network", name);
  return Id;
}

const volume = z.object({
  Name: z.string(),
  Driver: z.literal("local"),
  Labels: labels,
  Options: z.record(z.string(), z.string()).nullish(),
});

/**
 * A volume has no id; its name begins with the install's prefix, which no other install may use. Throws Refused 403
 * `foreign_volume` and, for one that stands for a folder of the host, `volume_options`; or the engine's own 404.
 */
export async function ownVolume({ engine, key }: Own, name: string): Promise<Role> {
  const answer = await ask(engine, { method: "GET", path: `/volumes/${name}` });
  assertOk(answer);
  const { Name, Labels, Options } = read(volume, answer);
  if (Name !== name) throw forbidden("foreign_volume", `${name} is no volume of this install`);
  if (Object.keys(Options ?? {}).length > 0) throw forbidden("volume_options", `${name} stands for something else`);
  return ownRole(key, Labels, "volume", name);
}

function ownRole(key: string, given: z.output<typeof labels>, kind: string, name: string): Role {
  const parsed = role.safeParse(given?.[LABELS.role]);
  if (given?.[LABELS.install] === key && parsed.success) return parsed.data;
  throw forbidden(`foreign_${kind}`, `${name} is no ${kind} of this install`);
}
