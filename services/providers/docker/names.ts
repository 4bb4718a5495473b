// What belongs to which sandbox, in the engine's own records: names and labels. Nothing about a sandbox is kept anywhere else.
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { LABELS, namePrefix, type ROLES } from "#shared/docker/names.ts";
import type { SandboxRef, StartSandbox } from "../provider.ts";

type Role = (typeof ROLES)[number];
type Labels = Readonly<Record<string, string>>;

/** Of a sandbox's container and of its network: a second one of a generation cannot be made. */
export function sandboxName(key: string, { sandboxId, generation }: SandboxRef): string {
  return `${namePrefix(key)}${sandboxId}-g${generation}`;
}

export function startName(key: string, ref: SandboxRef, taskId: string): string {
  return `${sandboxName(key, ref)}-${taskId}`;
}

export function pistisdVolumeName(key: string, digest: string): string {
  return `${namePrefix(key)}pistisd-${digest.slice(0, 16)}`;
}

export function newFillerName(key: string): string {
  return `${namePrefix(key)}filler-${randomBytes(6).toString("hex")}`;
}

export function roleLabels(key: string, role: Role): Labels {
  return { [LABELS.install]: key, [LABELS.role]: role };
}

export function refLabels(key: string, role: Role, { sandboxId, session, generation }: SandboxRef): Labels {
  return {
    ...roleLabels(key, role),
    [LABELS.sandbox]: sandboxId,
    [LABELS.session]: session,
    [LABELS.generation]: String(generation),
  };
}

export function sandboxLabels(key: string, request: StartSandbox): Labels {
  const about = { [LABELS.task]: request.taskId, [LABELS.spec]: `diskMiB=${request.spec.diskMiB}` };
  return { ...refLabels(key, "sandbox", request), ...about };
}

const owned = z.object({
  sandboxId: z.string().min(1),
  session: z.string().min(1),
  generation: z.coerce.number().int().positive(),
});

/** undefined: somebody else made it, with our label on it. */
export function refIn(labels: Labels): SandboxRef | undefined {
  const { [LABELS.sandbox]: sandboxId, [LABELS.session]: session, [LABELS.generation]: generation } = labels;
  return owned.safeParse({ sandboxId, session, generation }).data;
}

/** The disk limit that a container was made with, in MiB. */
export function diskLimitIn(labels: Labels): number | undefined {
  const found = /^diskMiB=(\d{1,9})$/.exec(labels[LABELS.spec] ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

/** A filter of list calls: what belongs to the install, in this role, and to this sandbox if one is named. */
export function labelled(key: string, role: Role, sandboxId?: string): { filters: string } {
  const label = [`${LABELS.install}=${key}`, `${LABELS.role}=${role}`];
  if (sandboxId !== undefined) label.push(`${LABELS.sandbox}=${sandboxId}`);
  return { filters: JSON.stringify({ label }) };
}
