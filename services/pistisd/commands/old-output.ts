// What is kept of the output of commands that ended takes up only so much of the disk.
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

export type KeptOutput = Readonly<{
  /** Calls that still write: theirs is bounded for each by itself and takes nothing from the others. */
  running: ReadonlySet<string>;
  /** The call that has just ended: whoever waits for it has not read its output yet. */
  ended: string;
  totalBytesMax: number;
}>;

/** Makes room by the files that were written to longest ago. */
export function dropOldOutput(directory: string, { running, ended, totalBytesMax }: KeptOutput): void {
  const files = readdirSync(directory).flatMap((name) => {
    const callId = name.replace(/\.sh$/, "");
    if (running.has(callId)) return [];
    const stat = statSync(join(directory, name), { throwIfNoEntry: false });
    return [{ name, callId, bytes: (stat?.blocks ?? 0) * 512, atMs: stat?.mtimeMs ?? 0 }];
  });
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { name, callId, bytes } of files.sort((a, b) => a.atMs - b.atMs)) {
    if (total <= totalBytesMax) return;
    if (callId === ended) continue;
    rmSync(join(directory, name), { force: true });
    total -= bytes;
  }
}
