// Removes what belongs to no sandbox of this install: what an older generation left, what a process that died had half
// made or half removed, pistisd's volumes of other versions. By label, so that another install's is never touched. Another
// provider of this install may be making a sandbox meanwhile, whose container comes last: what is young may be its.
import { z } from "zod";
import { failureOf } from "#shared/errors/errors.ts";
import { listContainers, removeContainer, sandboxContainers } from "./containers.ts";
import type { Docker } from "./docker.ts";
import { ask } from "./engine/engine.ts";
import { labelled, pistisdVolumeName } from "./names.ts";
import { removeNetwork, sandboxNetworks } from "./network/networks.ts";
import { removeUpTo } from "./sandbox.ts";
import { removeVolume, startNotes } from "./starts.ts";

/** Longer than a sandbox is in the making: some calls of the engine, each three minutes at most, one of which takes long. */
export const ABANDONED_AFTER_MS = 10 * 60_000;

/** One thing that cannot be removed does not keep the others. */
export async function sweep(docker: Docker): Promise<void> {
  for (const remove of [sweepFillers, sweepGenerations, sweepNetworks, sweepStarts, sweepPistisd]) {
    await remove(docker).catch((error: unknown) => {
      docker.log.warn({ failure: failureOf(error), sweep: remove.name }, "A sweep was left unfinished");
    });
  }
}

async function sweepFillers(docker: Docker): Promise<void> {
  const { engine, key } = docker;
  for (const { Id, Created } of await listContainers(engine, key, { role: "filler" })) {
    if (isAbandoned(docker, Created * 1_000)) await removeContainer(engine, Id);
  }
}

/** By this machine's clock, which need not be quite the engine's. */
function isAbandoned({ abandonedAfterMs = ABANDONED_AFTER_MS }: Docker, createdAt: number): boolean {
  return Date.now() - createdAt >= abandonedAfterMs;
}

/** What could not be removed whole is tried again, and so is every generation but the newest. */
async function sweepGenerations(docker: Docker): Promise<void> {
  const newest = new Map<string, number>();
  for (const { id, ref, state } of await sandboxContainers(docker.engine, docker.key)) {
    const known = newest.get(ref.sandboxId);
    if (state === "missing") await removeContainer(docker.engine, id);
    else if (known === undefined) newest.set(ref.sandboxId, ref.generation);
    else if (ref.generation < known) await docker.inTurn(ref.sandboxId, () => removeUpTo(docker, ref));
  }
}

async function sweepNetworks(docker: Docker): Promise<void> {
  const hasContainer = await lifeCheck(docker);
  for (const { id, ref, createdAt } of await sandboxNetworks(docker)) {
    if (!hasContainer(ref) && isAbandoned(docker, createdAt)) await removeNetwork(docker, id);
  }
}

async function sweepStarts(docker: Docker): Promise<void> {
  const hasContainer = await lifeCheck(docker);
  for (const { name, ref } of await startNotes(docker)) {
    if (!hasContainer(ref)) await removeVolume(docker, name);
  }
}

async function lifeCheck({ engine, key }: Docker) {
  const keyOf = ({ sandboxId, generation }: { sandboxId: string; generation: number }) => `${sandboxId} ${generation}`;
  const known = new Set((await sandboxContainers(engine, key)).map(({ ref }) => keyOf(ref)));
  return (ref: { sandboxId: string; generation: number }) => known.has(keyOf(ref));
}

const volumes = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullish() });

/** One that a sandbox still has mounted stays. */
async function sweepPistisd(docker: Docker): Promise<void> {
  const { engine, key } = docker;
  const current = pistisdVolumeName(key, (await docker.pistisd()).digest);
  const { Volumes } = await ask(engine, { method: "GET", path: "/volumes", query: labelled(key, "pistisd") }, volumes);
  for (const { Name } of Volumes ?? []) {
    if (Name !== current) await removeVolume(docker, Name);
  }
}
