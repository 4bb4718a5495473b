import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { type Mirror, targetName } from "./mirror.ts";
import { type Git, runGit } from "./run-git.ts";

export type Bundle = Readonly<{ path: string; bytes: number }>;

const MIB = 1024 * 1024;

/**
 * Writes branches, tags and the target into one file, which the caller removes. undefined for a repository with no
 * commit. Throws Refusal `too_large`.
 */
export async function writeBundle(
  git: Git,
  mirror: Mirror,
  bundleMiBMax: number,
  signal: AbortSignal,
): Promise<Bundle | undefined> {
  const { path: repository, target } = mirror;
  if (target.kind === "empty") return undefined;
  const path = join(git.stateDir, "bundles", `${newId("task")}.bundle`);
  const name = targetName(target.commit);
  await runGit(git, { repository, signal, args: ["bundle", "create", "--quiet", path, "--branches", "--tags", name] });
  const { size } = await stat(path);
  if (size <= bundleMiBMax * MIB) return { path, bytes: size };
  await rm(path, { force: true });
  throw new Refusal("too_large", `The repository is ${Math.ceil(size / MIB)} MiB; the limit is ${bundleMiBMax} MiB`, {
    next: "Raise git.bundleMiBMax in pistis.json, and sandboxes.diskMiB with it.",
  });
}
