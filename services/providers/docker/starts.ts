// Which starts were asked for, in the engine's own records. A container's labels cannot change, so each start after the
// first is noted by an empty volume whose labels say which life the container had then. A task that comes again, from
// whichever process, then sees that its start has happened and starts nothing twice.
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import type { SandboxRef } from "../provider.ts";
import type { Docker } from "./docker.ts";
import { ask, tell, unless } from "./engine/engine.ts";
import { labelled, refIn, refLabels, startName } from "./names.ts";

/** So many of a sandbox are kept: tasks older than that do not come again. */
const STARTS_KEPT = 8;

const volume = z.object({
  Name: z.string(),
  CreatedAt: z.string().default(""),
  Labels: z.record(z.string(), z.string()).nullish(),
});

export type StartNote = Readonly<{ name: string; ref: SandboxRef; task: string; createdAt: string }>;

/** Notes the start, or finds it noted. Answers the life (its StartedAt) that the container had when it was noted first. */
export async function noteStart(docker: Docker, ref: SandboxRef, start: { taskId: string; life: string }) {
  const { engine, key } = docker;
  const body = {
    Name: startName(key, ref, start.taskId),
    Labels: {
      ...refLabels(key, "start", ref),
      [LABELS.task]: start.taskId,
      [LABELS.previous]: start.life,
    },
  };
  const noted = await ask(engine, { method: "POST", path: "/volumes/create", body }, volume);
  return noted.Labels?.[LABELS.previous] ?? start.life;
}

export async function startNotes({ engine, key }: Docker, sandboxId?: string): Promise<StartNote[]> {
  const answer = z.object({ Volumes: z.array(volume).nullish() });
  const query = labelled(key, "start", sandboxId);
  const { Volumes } = await ask(engine, { method: "GET", path: "/volumes", query }, answer);
  return (Volumes ?? []).flatMap(({ Name: name, CreatedAt: createdAt, Labels }) => {
    const ref = refIn(Labels ?? {});
    return ref === undefined ? [] : [{ name, ref, task: Labels?.[LABELS.task] ?? "", createdAt }];
  });
}

/** Removes all but the newest of this sandbox. */
export async function trimStartNotes(docker: Docker, { sandboxId, generation }: SandboxRef): Promise<void> {
  const notes = (await startNotes(docker, sandboxId)).filter(({ ref }) => ref.generation === generation);
  if (notes.length <= STARTS_KEPT) return;
  const oldestFirst = notes.sort((one, other) => (one.createdAt < other.createdAt ? -1 : 1));
  for (const { name } of oldestFirst.slice(0, -STARTS_KEPT)) await removeVolume(docker, name);
}

/** False: something uses it. One that is gone is a success. */
export async function removeVolume({ engine }: Docker, name: string): Promise<boolean> {
  const removed = tell(engine, { method: "DELETE", path: `/volumes/${name}` }).then(() => true);
  return unless([409], unless([404], removed, true), false);
}
