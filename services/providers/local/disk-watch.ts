// The kernel gives no limit on a folder that every file system knows, so disk use is watched: measured now and then,
// and at once when the file system's free space falls fast.
import { execFile } from "node:child_process";
import { statfs } from "node:fs/promises";
import { setInterval as every } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

const LOOK_EVERY_MS = 1_000;
const MEASURE_EVERY_MS = 10_000;
/** Measuring takes at most one in so many parts of the time. */
const MEASURE_SHARE = 30;
const MIB = 1024 * 1024;
/** A sandbox that starts over its limit may still write so much, to be able to tidy up. */
const SLACK_MIB = 64;

export type DiskWatch = Readonly<{
  folder: string;
  limitMiB: number;
  onOver: (usedMiB: number) => void;
  signal: AbortSignal;
}>;

/** Resolves after the signal, or when the limit was passed and `onOver` was called. Throws when it cannot measure. */
export async function watchDisk({ folder, limitMiB, onOver, signal }: DiskWatch): Promise<void> {
  try {
    const allowedMiB = Math.max(limitMiB, (await usedMiB(folder, signal)) + SLACK_MIB);
    let free = await freeMiB(folder);
    let measuredAt = performance.now();
    let waitMs = MEASURE_EVERY_MS;
    for await (const _ of every(LOOK_EVERY_MS, undefined, { signal, ref: false })) {
      const fell = free - (await freeMiB(folder)) > limitMiB / 4;
      if (!fell && performance.now() - measuredAt < waitMs) continue;
      const startedAt = performance.now();
      const used = await usedMiB(folder, signal);
      free = await freeMiB(folder);
      measuredAt = performance.now();
      waitMs = Math.max(MEASURE_EVERY_MS, (measuredAt - startedAt) * MEASURE_SHARE);
      if (used > allowedMiB) return onOver(used);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function freeMiB(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return (bavail * bsize) / MIB;
}

/** Follows no link and stays on the file system. What vanishes while it looks is not counted, and no failure. */
async function usedMiB(folder: string, signal: AbortSignal): Promise<number> {
  const { stdout } = await run("du", ["-sxk", "--", folder], { signal }).catch((error: unknown) => {
    if (error instanceof Error && "stdout" in error && typeof error.stdout === "string" && error.stdout !== "") {
      return { stdout: error.stdout };
    }
    throw error;
  });
  return Number.parseInt(stdout, 10) / 1024;
}
