// What `--repo` means: a URL as it is, or a folder of this machine, which stands for the repository that it is in.
import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { Refusal } from "#shared/errors/errors.ts";
import { pathExists } from "#shared/files/path-exists.ts";

const run = promisify(execFile);
const STATUS_MS_MAX = 10_000;

export function isUrl(repository: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(repository) || /^[^/\s]+@[^/\s]+:/.test(repository);
}

/** The folder that git would clone. Throws a Refusal `no_repository` when the folder is in none. */
export async function repositoryAt(folder: string, cwd: string): Promise<string> {
  const start = await realpath(resolve(cwd, folder)).catch((cause: unknown) => {
    throw new Refusal("no_repository", `${folder} is no folder of this machine`, {
      cause,
      next: "Check the path after --repo",
    });
  });
  for (let at = start; ; at = dirname(at)) {
    if ((await pathExists(join(at, ".git"))) || (await isBare(at))) return at;
    if (at === dirname(at)) break;
  }
  throw new Refusal("no_repository", `${folder} is in no git repository`, {
    next: "Give the path of one, or a URL; or git init && git add -A && git commit first",
  });
}

/** How many files differ from the last commit: a clone does not hold these changes. 0 when git cannot say. */
export async function uncommittedFiles(repository: string): Promise<number> {
  const options = ["-c", "core.fsmonitor=false", "--no-optional-locks", "-C", repository, "status", "--porcelain"];
  const status = await run("git", options, { timeout: STATUS_MS_MAX, maxBuffer: 64 * 1024 * 1024 }).then(
    ({ stdout }) => stdout,
    () => "",
  );
  return status.split("\n").filter((line) => line !== "").length;
}

async function isBare(folder: string): Promise<boolean> {
  return (
    (await pathExists(join(folder, "HEAD"))) &&
    (await pathExists(join(folder, "objects"))) &&
    pathExists(join(folder, "refs"))
  );
}
