// The user of this machine that a sandbox's processes and files belong to. Root gives each sandbox one of its own,
// from a range that nobody else uses; an ordinary user has only itself.
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "#shared/ids/ids.ts";
import type { Local } from "./local-provider.ts";
import { folderOf, sandboxIds } from "./sandbox-folder.ts";

/** Above every range that distributions, systemd and subuid hand out. */
export const UID_FIRST = 1_900_000_000;
export const UID_COUNT = 100_000_000;

/** By the sandbox's id, so that two installs hardly ever meet; never one that another sandbox here has. */
export async function pickUid(local: Local, sandboxId: string): Promise<number> {
  if (!local.root) return process.getuid?.() ?? 0;
  const folders = (await sandboxIds(local.stateDir)).map((id) => stat(join(folderOf(local.stateDir, id), "workspace")));
  const taken = new Set((await Promise.allSettled(folders)).map((found) => ("value" in found ? found.value.uid : -1)));
  let uid = UID_FIRST + (Number.parseInt(sha256(`${local.installId} ${sandboxId}`).slice(0, 12), 16) % UID_COUNT);
  while (taken.has(uid)) uid = uid + 1 < UID_FIRST + UID_COUNT ? uid + 1 : UID_FIRST;
  return uid;
}
