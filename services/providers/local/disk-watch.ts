// The kernel gives no limit on a folder that every file system knows, so disk use is watched: measured now and then,
// and at once when the file system's free space falls fast. What is measured is hostile: it must not be able to keep
// itself from being measured.
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
/**
 * So many in a row, one at each look: unmeasured for about as long as between two measurements. A machine that is short
 * of processes or memory for a moment ends no sandbox.
 */
export const MEASUREMENTS_FAILED_MAX = MEASURE_EVERY_MS / LOOK_EVERY_MS;

export type DiskWatch = Readonly<{
  folder: string;
  limitMiB: number;
  onOver: (usedMiB: number) => void;
  signal: AbortSignal;
  lookEveryMs?: number;
  /** In MiB. */
  measure?: (folder: string, signal: AbortSignal) => Promise<number>;
}>;

type Measurement = Readonly<{ usedMiB: number; freeMiB: number; at: number; waitMs: number; failures: number }>;

/** Resolves after the signal, or when the limit was passed and `onOver` was called. Throws when it cannot measure. */
export async function watchDisk(watch: DiskWatch): Promise<void> {
  const { folder, limitMiB, onOver, signal, lookEveryMs = LOOK_EVERY_MS } = watch;
  try {
    let last = await measured(watch, 0);
    const allowedMiB = Math.max(limitMiB, last.usedMiB + SLACK_MIB);
    for await (const _ of every(lookEveryMs, undefined, { signal, ref: false })) {
      const fell = last.freeMiB - (await freeMiB(folder)) > limitMiB / 4;
      if (!fell && performance.now() - last.at < last.waitMs) continue;
      last = await measured(watch, last.failures);
      if (last.usedMiB > allowedMiB) return onOver(last.usedMiB);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** One that failed has found nothing, and is tried again at the next look. */
async function measured({ folder, signal, measure = usedMiB }: DiskWatch, failures: number): Promise<Measurement> {
  const startedAt = performance.now();
  try {
    const used = await measure(folder, signal);
    const free = await freeMiB(folder);
    const at = performance.now();
    const waitMs = Math.max(MEASURE_EVERY_MS, (at - startedAt) * MEASURE_SHARE);
    return { usedMiB: used, freeMiB: free, at, waitMs, failures: 0 };
  } catch (error) {
    if (signal.aborted || failures + 1 >= MEASUREMENTS_FAILED_MAX) throw error;
    const at = performance.now();
    return { usedMiB: 0, freeMiB: 0, at, waitMs: (at - startedAt) * MEASURE_SHARE, failures: failures + 1 };
  }
}

async function freeMiB(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return (bavail * bsize) / MIB;
}

/** As root of a namespace of its own an ordinary user sees into its folders whose mode keeps even their owner out. */
const IN_OWN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--"];

/** Follows no link and stays on the file system. What vanishes while it looks is not counted, and no failure. */
async function usedMiB(folder: string, signal: AbortSignal): Promise<number> {
  const command = ["du", "-sxk", "--", folder];
  const isRoot = process.getuid?.() === 0;
  const seenAsRoot = isRoot ? "" : await outputOf([...IN_OWN_NAMESPACE, ...command], signal).catch(() => "");
  return Number.parseInt(seenAsRoot || (await outputOf(command, signal)), 10) / 1024;
}

/** What it complains of is not read: the sandbox chooses how much that is. */
async function outputOf(command: readonly string[], signal: AbortSignal): Promise<string> {
  const args = ["-c", 'exec "$@" 2>/dev/null', "sh", ...command];
  const { stdout } = await run("sh", args, { signal }).catch((error: unknown) => {
    if (error instanceof Error && "stdout" in error && typeof error.stdout === "string" && error.stdout !== "") {
      return { stdout: error.stdout };
    }
    throw error;
  });
  return stdout;
}
