// Containers of sandboxes, as the engine lists and changes them.
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import type { SandboxState } from "#schemas/provider/task.ts";
import { LABELS } from "#shared/docker/names.ts";
import { Retryable } from "#shared/errors/errors.ts";
import type { SandboxRef, SeenSandbox } from "../provider.ts";
import { ask, type Engine, tell, unless } from "./engine/engine.ts";
import { labelled, refIn } from "./names.ts";

const GONE_MS_MAX = 60_000;
const GONE_LOOK_MS = 50;

const listed = z.object({
  Id: z.string(),
  State: z.string(),
  Status: z.string(),
  Labels: z.record(z.string(), z.string()),
  /** In seconds. */
  Created: z.number().default(0),
  SizeRw: z.number().optional(),
});

export type Listed = z.output<typeof listed>;

/** A container with the labels of a sandbox. */
export type SandboxContainer = Readonly<{
  id: string;
  ref: SandboxRef;
  state: SandboxState;
  /** In the engine's words, for people. */
  status: string;
  labels: Readonly<Record<string, string>>;
  /** The task that made it. */
  madeBy: string;
  diskBytes: number | undefined;
}>;

const inspected = z.object({
  Id: z.string(),
  Config: z.object({ User: z.string(), Labels: z.record(z.string(), z.string()) }),
  State: z.object({
    Status: z.string(),
    StartedAt: z.string(),
    ExitCode: z.number(),
    OOMKilled: z.boolean(),
  }),
});

export type Inspected = z.output<typeof inspected>;

export async function listContainers(
  engine: Engine,
  key: string,
  {
    role = "sandbox",
    sandboxId,
    sizes = false,
  }: { role?: "sandbox" | "filler"; sandboxId?: string; sizes?: boolean } = {},
): Promise<Listed[]> {
  const query = { ...labelled(key, role, sandboxId), all: "true", ...(sizes ? { size: "true" } : {}) };
  return ask(engine, { method: "GET", path: "/containers/json", query }, z.array(listed));
}

/** All of the install, or of one sandbox, the newest generation first. */
export async function sandboxContainers(
  engine: Engine,
  key: string,
  options: { sandboxId?: string; sizes?: boolean } = {},
): Promise<SandboxContainer[]> {
  const found = (await listContainers(engine, key, options)).flatMap((container): SandboxContainer[] => {
    const ref = refIn(container.Labels);
    if (ref === undefined) return [];
    const { Id: id, State, Status: status, Labels: labels, SizeRw: diskBytes } = container;
    return [{ id, ref, state: stateOf(State), status, labels, madeBy: labels[LABELS.task] ?? "", diskBytes }];
  });
  return found.sort((one, other) => other.ref.generation - one.ref.generation);
}

/** What is on its way out, or could not be removed whole, is no sandbox any more. */
export function stateOf(status: string): SandboxState {
  switch (status) {
    case "running":
    case "restarting":
      return "running";
    case "paused":
      return "paused";
    case "created":
    case "exited":
      return "stopped";
    default:
      return "missing";
  }
}

/** Its processes are there, frozen or not. */
export function isUp(state: SandboxState): boolean {
  return state === "running" || state === "paused";
}

export function seenOf({ ref, state, status }: SandboxContainer): SeenSandbox {
  return { ...ref, state, reason: status === "" ? state : status };
}

/** undefined: there is no such container. */
export async function inspectContainer(engine: Engine, id: string): Promise<Inspected | undefined> {
  return unless([404], ask(engine, { method: "GET", path: `/containers/${id}/json` }, inspected), undefined);
}

/** Why it does not run, in words. */
export function endReason({ State }: Inspected): string {
  if (State.OOMKilled) return "Its memory ran out, and the kernel ended it";
  return `Its first process ended with exit code ${State.ExitCode}`;
}

/** TERM, then KILL after `seconds`. One that does not run is a success. */
export async function stopContainer(engine: Engine, id: string, seconds: number): Promise<void> {
  const query = { t: String(seconds) };
  await unless([304, 404], tell(engine, { method: "POST", path: `/containers/${id}/stop`, query }), undefined);
}

/** `ending` is on purpose, so nobody is told of the end. What it could not end goes on being watched. */
export async function unwatched(
  { running }: { running: Map<string, SandboxRef> },
  id: string,
  ending: () => Promise<void>,
): Promise<void> {
  const ref = running.get(id);
  running.delete(id);
  await ending().catch((error: unknown) => {
    if (ref !== undefined) running.set(id, ref);
    throw error;
  });
}

/** With whatever runs in it, its disk and its nameless volumes. Resolves when it is gone for every reader. */
export async function removeContainer(engine: Engine, id: string): Promise<void> {
  const call = { method: "DELETE", path: `/containers/${id}`, query: { force: "true", v: "true" } } as const;
  const gone = tell(engine, call).then(() => true);
  // 409: somebody else is removing it already.
  if (!(await unless([409], unless([404], gone, true), false))) await untilRemoved(engine, id);
}

async function untilRemoved(engine: Engine, id: string): Promise<void> {
  const deadline = Date.now() + GONE_MS_MAX;
  while ((await inspectContainer(engine, id)) !== undefined) {
    if (Date.now() > deadline) {
      throw new Retryable("docker_remove_stuck", `Docker has been removing container ${id} for ${GONE_MS_MAX} ms`, {
        retryAfterMs: GONE_MS_MAX,
        next: "Look at the Docker daemon's log.",
      });
    }
    await pause(GONE_LOOK_MS);
  }
}
