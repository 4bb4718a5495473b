// What can be done with one sandbox, each from what the engine says is there.
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { LABELS } from "#shared/docker/names.ts";
import { Retryable } from "#shared/errors/errors.ts";
import type { SandboxRef, SeenSandbox, StartSandbox } from "../provider.ts";
import { generationOld, sandboxMissing, sandboxNotRunning } from "../refusals.ts";
import { sandboxBody } from "./container-body.ts";
import {
  type Inspected,
  inspectContainer,
  isUp,
  removeContainer,
  type SandboxContainer,
  sandboxContainers,
  seenOf,
  stateOf,
  stopContainer,
  unwatched,
} from "./containers.ts";
import { DEFAULT_IMAGE } from "./default-image.ts";
import type { Docker } from "./docker.ts";
import { ask, EngineRefused, tell, unless } from "./engine/engine.ts";
import { tokenFile, wholeGuestFiles } from "./guest-files.ts";
import { prepareImage } from "./image/prepare-image.ts";
import { sandboxName } from "./names.ts";
import { ensureNetwork, removeNetwork, sandboxNetworks } from "./network/networks.ts";
import { noteStart, removeVolume, startNotes, trimStartNotes } from "./starts.ts";

/** How long a stop waits for pistisd to end its commands. */
const STOP_SECONDS = 10;
const MOVES_MAX = 5;
const MOVE_RETRY_MS = 100;

const made = z.object({ Id: z.string() });

export async function createSandbox(docker: Docker, request: StartSandbox): Promise<void> {
  const found = await containersOf(docker, request);
  const current = found.find(({ ref }) => ref.generation === request.generation);
  // A disk of an older generation is another sandbox's.
  if (found.some(({ ref }) => ref.generation < request.generation)) {
    await removeUpTo(docker, { ...request, generation: request.generation - 1 });
  }
  await ensureStarted(docker, current?.id ?? (await makeContainer(docker, request)), request);
}

export async function restartSandbox(docker: Docker, request: StartSandbox): Promise<void> {
  await ensureStarted(docker, (await currentOf(docker, request)).id, request);
}

export async function pauseSandbox(docker: Docker, ref: SandboxRef): Promise<void> {
  const { id, state } = await currentOf(docker, ref);
  if (state === "stopped") throw sandboxNotRunning(ref);
  if (state !== "paused") await move(docker, { id, ref, verb: "pause", to: "paused" });
}

export async function resumeSandbox(docker: Docker, ref: SandboxRef): Promise<void> {
  const { id, state } = await currentOf(docker, ref);
  if (state === "stopped") throw sandboxNotRunning(ref);
  if (state !== "running") await move(docker, { id, ref, verb: "unpause", to: "running" });
}

export async function stopSandbox(docker: Docker, ref: SandboxRef): Promise<void> {
  const { id, state } = await currentOf(docker, ref);
  if (state === "stopped") return;
  await unwatched(docker, id, () => stopContainer(docker.engine, id, state === "paused" ? 0 : STOP_SECONDS));
}

export async function inspectSandbox(docker: Docker, ref: SandboxRef): Promise<SeenSandbox> {
  const found = await sandboxContainers(docker.engine, docker.key, { sandboxId: ref.sandboxId });
  const current = found.find((container) => container.ref.generation === ref.generation);
  return current === undefined ? { ...ref, state: "missing", reason: "It has no container" } : seenOf(current);
}

/** A newer generation of the same sandbox is not what was asked to be deleted. */
export async function destroySandbox(docker: Docker, ref: SandboxRef): Promise<void> {
  await removeUpTo(docker, ref);
}

/** The newest generation of each. */
export async function listSandboxes({ engine, key }: Docker): Promise<SeenSandbox[]> {
  const newest = new Map<string, SeenSandbox>();
  for (const container of await sandboxContainers(engine, key)) {
    const { sandboxId } = container.ref;
    if (!newest.has(sandboxId) && container.state !== "missing") newest.set(sandboxId, seenOf(container));
  }
  return [...newest.values()];
}

/** The container goes first: what is left without it belongs to nobody, and the next sweep removes it. */
export async function removeUpTo(docker: Docker, { sandboxId, generation }: SandboxRef): Promise<void> {
  const { engine, key } = docker;
  const old = <Thing extends { ref: SandboxRef }>(things: readonly Thing[]) =>
    things.filter(({ ref }) => ref.generation <= generation);
  for (const { id } of old(await sandboxContainers(engine, key, { sandboxId }))) {
    await unwatched(docker, id, () => removeContainer(engine, id));
  }
  for (const { id } of old(await sandboxNetworks(docker, sandboxId))) await removeNetwork(docker, id);
  for (const { name } of old(await startNotes(docker, sandboxId))) await removeVolume(docker, name);
}

async function containersOf({ engine, key }: Docker, ref: SandboxRef): Promise<SandboxContainer[]> {
  const found = await sandboxContainers(engine, key, { sandboxId: ref.sandboxId });
  const newest = found[0]?.ref.generation ?? 0;
  if (newest > ref.generation) throw generationOld(ref, newest);
  return found;
}

async function currentOf(docker: Docker, ref: SandboxRef): Promise<SandboxContainer> {
  const current = (await containersOf(docker, ref)).find((found) => found.ref.generation === ref.generation);
  if (current === undefined || current.state === "missing") throw sandboxMissing(ref);
  return current;
}

/** Its name can be given once, so of two that make it at the same time one finds the other's. */
async function makeContainer(docker: Docker, request: StartSandbox): Promise<string> {
  const { engine, key } = docker;
  const image = await prepareImage(docker, imageOf(docker, request));
  const network = request.spec.network.mode === "open" ? await ensureNetwork(docker, request) : undefined;
  const name = sandboxName(key, request);
  const body = sandboxBody(docker, request, { ...image, network });
  const asked = ask(engine, { method: "POST", path: "/containers/create", query: { name }, body }, made);
  const { Id } = (await unless([409], asked, undefined)) ?? {};
  return Id ?? name;
}

function imageOf({ image }: Docker, { spec }: StartSandbox): string {
  return spec.image ?? image ?? DEFAULT_IMAGE;
}

async function ensureStarted(docker: Docker, idOrName: string, request: StartSandbox): Promise<void> {
  const { engine } = docker;
  const found = await inspectContainer(engine, idOrName);
  if (found === undefined) throw sandboxMissing(request);
  const { Id: id, State } = found;
  if (await isStarted(docker, found, request)) {
    docker.running.set(id, request);
    return;
  }
  await unwatched(docker, id, async () => {
    if (isUp(stateOf(State.Status))) await stopContainer(engine, id, 0);
  });
  docker.running.set(await startWithFiles(docker, found, request), request);
  await trimStartNotes(docker, request);
}

/** Answers the id of what runs. */
async function startWithFiles(docker: Docker, found: Inspected, request: StartSandbox): Promise<string> {
  await giveFiles(docker, found, request);
  const refused = await tryStart(docker, found.Id);
  if (refused === undefined) return found.Id;
  if (found.State.Status !== "created") throw startFailed(refused);
  // It never ran, so nothing is lost with it. An engine that was killed while it started this container can neither start
  // nor end it any more, and its network may have been removed since it was made.
  await removeContainer(docker.engine, found.Id);
  const made = await inspectContainer(docker.engine, await makeContainer(docker, request));
  if (made === undefined) throw startFailed(refused);
  await giveFiles(docker, made, request);
  const again = await tryStart(docker, made.Id);
  if (again !== undefined) throw startFailed(again);
  return made.Id;
}

/** Whether this very task has started it, as far as the engine knows; if not, that it will is noted. */
async function isStarted(docker: Docker, { State, Config }: Inspected, request: StartSandbox): Promise<boolean> {
  const { taskId } = request;
  const up = isUp(stateOf(State.Status));
  if (Config.Labels[LABELS.task] === taskId) return up;
  const lifeBefore = await noteStart(docker, request, { taskId, life: State.StartedAt });
  return up && lifeBefore !== State.StartedAt;
}

/**
 * The join token goes in as a file that pistisd deletes once it has read it: an environment, an argument or a label would
 * show it to whoever may look at the container. The container does not run meanwhile, so nothing inside can interfere.
 */
async function giveFiles(docker: Docker, { Id, Config, State }: Inspected, request: StartSandbox): Promise<void> {
  const uid = Number(Config.User.split(":")[0]);
  const archive =
    State.Status === "created"
      ? wholeGuestFiles(await prepareImage(docker, imageOf(docker, request)), uid, request.joinToken)
      : tokenFile(uid, request.joinToken);
  const call = { method: "PUT", path: `/containers/${Id}/archive`, query: { path: "/" }, archive } as const;
  await tell(docker.engine, call);
}

async function tryStart({ engine }: Docker, id: string): Promise<EngineRefused | undefined> {
  const started = tell(engine, { method: "POST", path: `/containers/${id}/start` });
  const done = unless([304], started, undefined).then(() => undefined);
  return done.catch(engineRefusal);
}

function startFailed(cause: EngineRefused): Retryable {
  return new Retryable("sandbox_start_failed", `The sandbox did not start: ${cause.message}`, {
    cause,
    retryAfterMs: 2_000,
    next: 'The image needs /bin/sh. If Docker was killed while it started the sandbox ("already exists"), restart Docker.',
  });
}

type Move = Readonly<{ id: string; ref: SandboxRef; verb: "pause" | "unpause"; to: "paused" | "running" }>;

/** The kernel may take several tries to freeze processes that start others all the time. */
async function move({ engine }: Docker, { id, ref, verb, to }: Move): Promise<void> {
  for (let tries = 1; ; tries++) {
    const moved = tell(engine, { method: "POST", path: `/containers/${id}/${verb}` }).then(() => undefined);
    // 409: it is not in the state that it was in when we looked. Newer engines say 304 where it is there already.
    const refused = await unless([304, 409], moved, undefined).catch(engineRefusal);
    const now = stateOf((await inspectContainer(engine, id))?.State.Status ?? "");
    if (now === to) return;
    if (now === "missing") throw sandboxMissing(ref);
    if (now === "stopped") throw sandboxNotRunning(ref);
    if (refused !== undefined && tries >= MOVES_MAX) throw refused;
    if (tries >= MOVES_MAX) throw stuck(verb);
    await pause(MOVE_RETRY_MS);
  }
}

function engineRefusal(error: unknown): EngineRefused {
  if (error instanceof EngineRefused) return error;
  throw error;
}

function stuck(verb: string): Retryable {
  return new Retryable("docker_state_unchanged", `Docker accepts ${verb}, and the sandbox stays as it was`, {
    retryAfterMs: 5_000,
    next: "Look at the Docker daemon's log.",
  });
}
