// Deletes what a hostile sandbox left behind: folders nobody may enter, paths longer than a path may be. `rm` walks
// by folder handles, so it has no limit on depth and follows no link.
import { execFile } from "node:child_process";
import { access } from "node:fs/promises";
import { promisify } from "node:util";
import { Retryable } from "#shared/errors/errors.ts";

const run = promisify(execFile);

/** Nothing of the sandbox may run any more. Throws Retryable `delete_failed` when something stays. */
export async function removeTree(path: string): Promise<void> {
  await run("rm", ["-rf", "--", path]).catch(() => removeLocked(path));
}

/** Without root, a folder without its owner's rights has to be opened up first. */
async function removeLocked(path: string): Promise<void> {
  await run("chmod", ["-R", "u+rwX", "--", path]).catch((error: unknown) => {
    if (!(error instanceof Error)) throw error;
  });
  await run("rm", ["-rf", "--", path]).catch(async (cause: unknown) => {
    if (await exists(path)) throw deleteFailed(path, cause);
  });
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function deleteFailed(path: string, cause: unknown): Retryable {
  return new Retryable("delete_failed", `Something in ${path} could not be deleted`, {
    cause,
    retryAfterMs: 5_000,
    next: `Delete ${path} by hand; the next start tries again too.`,
  });
}
