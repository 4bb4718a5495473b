// A place in a sandbox's script at which it waits for the test.
import { execFileSync } from "node:child_process";
import { open } from "node:fs/promises";
import { join } from "node:path";

export type Gate = Readonly<{
  /** The lines of the script that wait. */
  hold: string;
  /** Resolves when a script waits. */
  reached: () => Promise<void>;
  open: () => Promise<void>;
  /** Lets go whoever still waits on either side. */
  close: () => Promise<void>;
}>;

/** Its pipes are below `folder`, which the caller removes. */
export async function openGate(folder: string): Promise<Gate> {
  const [reached, opened] = [await openPipe(join(folder, "reached")), await openPipe(join(folder, "opened"))];
  return {
    hold: `echo > ${reached.path}; read -r _ < ${opened.path}`,
    reached: async () => void (await reached.handle.read()),
    open: async () => void (await opened.handle.write("\n")),
    close: async () => {
      for (const { handle } of [reached, opened]) {
        await handle.write("\n");
        await handle.close();
      }
    },
  };
}

/** Open for both directions, so that neither side waits for the other to open it. */
async function openPipe(path: string) {
  execFileSync("mkfifo", [path]);
  return { path, handle: await open(path, "r+") };
}
