// What can be done with one sandbox, each from what is true on disk and in the process table.
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import type { SandboxRef, SeenSandbox, StartSandbox } from "../provider.ts";
import { generationOld, sandboxMissing } from "../refusals.ts";
import type { Local } from "./local-provider.ts";
import { isAlive, killProcess, untilGone } from "./process-identity.ts";
import { endGuest, startGuest } from "./running-guest.ts";
import {
  createFolder,
  type Life,
  type Meta,
  readLife,
  readMeta,
  removeFolder,
  sandboxIds,
  writeMeta,
} from "./sandbox-folder.ts";
import { pickUid } from "./sandbox-uid.ts";

export async function createSandbox(local: Local, request: StartSandbox): Promise<void> {
  const found = await ownMeta(local, request.sandboxId);
  if (found !== undefined) assertNotOlder(found, request);
  // A disk of an older generation is another sandbox's.
  if (found !== undefined && found.generation < request.generation) await remove(local, found);
  const kept = found?.generation === request.generation ? found : undefined;
  const meta =
    kept ?? (await createFolder(local.stateDir, local.installId, request, await pickUid(local, request.sandboxId)));
  await start(local, meta, request);
}

export async function restartSandbox(local: Local, request: StartSandbox): Promise<void> {
  const found = await ownMeta(local, request.sandboxId);
  if (found !== undefined) assertNotOlder(found, request);
  if (found?.generation !== request.generation) throw sandboxMissing(request);
  await start(local, found, request);
}

export async function stopSandbox(local: Local, ref: SandboxRef): Promise<void> {
  const found = await ownMeta(local, ref.sandboxId);
  if (found !== undefined) assertNotOlder(found, ref);
  if (found?.generation !== ref.generation) throw sandboxMissing(ref);
  await stop(local, found.sandboxId);
}

export async function inspectSandbox(local: Local, ref: SandboxRef): Promise<SeenSandbox> {
  const found = await ownMeta(local, ref.sandboxId);
  if (found?.generation !== ref.generation) return { ...ref, state: "missing", reason: "It has no folder" };
  return seen(local, found);
}

export async function destroySandbox(local: Local, ref: SandboxRef): Promise<void> {
  const found = await ownMeta(local, ref.sandboxId);
  // A newer generation under the same name is not what was asked to be deleted.
  if (found !== undefined && found.generation <= ref.generation) await remove(local, found);
}

export async function listSandboxes(local: Local): Promise<SeenSandbox[]> {
  const list: SeenSandbox[] = [];
  for (const sandboxId of await sandboxIds(local.stateDir)) {
    const meta = await readMeta(local.stateDir, sandboxId).catch((error: unknown) => unreadable(local, error));
    if (meta?.install === local.installId) list.push(await seen(local, meta));
  }
  return list;
}

/** One folder that somebody damaged does not hide the others. */
function unreadable(local: Local, error: unknown): undefined {
  local.log.error({ failure: failureOf(error) }, "A sandbox is left out");
}

async function start(local: Local, meta: Meta, request: StartSandbox): Promise<void> {
  const life = await liveLife(local, meta.sandboxId);
  if (life?.taskId === request.taskId) return;
  await stop(local, meta.sandboxId);
  const current = { ...meta, spec: request.spec };
  await writeMeta(local.stateDir, current);
  await startGuest(local, current, request);
}

async function remove(local: Local, meta: Meta): Promise<void> {
  await stop(local, meta.sandboxId);
  await removeFolder(local.stateDir, meta.sandboxId);
}

/** Ends whatever runs of it: this process's own, or one that an earlier process left. */
async function stop(local: Local, sandboxId: string): Promise<void> {
  await endGuest(local, sandboxId);
  const life = await liveLife(local, sandboxId);
  if (life === undefined) return;
  const init = { pid: life.initPid, startTicks: life.startTicks };
  await killProcess(init);
  await untilGone(init);
}

async function seen(local: Local, { sandboxId, session, generation }: Meta): Promise<SeenSandbox> {
  const life = await liveLife(local, sandboxId);
  const ref = { sandboxId, session, generation };
  return life === undefined
    ? { ...ref, state: "stopped", reason: "Its processes are gone, its disk is kept" }
    : { ...ref, state: "running", reason: "Its first process runs" };
}

async function liveLife(local: Local, sandboxId: string): Promise<Life | undefined> {
  const life = await readLife(local.stateDir, sandboxId);
  if (life === undefined) return undefined;
  return (await isAlive({ pid: life.initPid, startTicks: life.startTicks })) ? life : undefined;
}

async function ownMeta(local: Local, sandboxId: string): Promise<Meta | undefined> {
  const meta = await readMeta(local.stateDir, sandboxId);
  if (meta === undefined || meta.install === local.installId) return meta;
  throw new Refusal("foreign_sandbox", `Sandbox ${sandboxId} belongs to install ${meta.install}`, {
    next: "Give each install a state folder of its own.",
  });
}

function assertNotOlder(found: Meta, ref: SandboxRef): void {
  if (found.generation > ref.generation) throw generationOld(ref, found.generation);
}
