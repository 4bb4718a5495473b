// Room for what the daemon itself has to write on a disk that commands have filled: without it no newer brain could be greeted
// and no command begun, so nobody could make room again. A command that goes on writing may take the room first.
import { randomBytes } from "node:crypto";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDiskFull } from "../commands/spool.ts";
import { RESERVE_BYTES } from "../limits.ts";

export type Reserve = Readonly<{
  /** Answers what `write` does. On a full disk that gets the reserve's room and one more try; it must leave nothing half done. */
  spend: <Result>(write: () => Result) => Result;
}>;

export function openReserve(directory: string): Reserve {
  const path = join(directory, "reserve");
  let isThere = statSync(path, { throwIfNoEntry: false })?.size === RESERVE_BYTES || fill(path);
  return {
    spend: (write) => {
      try {
        const result = write();
        isThere ||= fill(path);
        return result;
      } catch (error) {
        if (!isThere || !isDiskFull(error)) throw error;
        rmSync(path, { force: true });
        isThere = false;
        return write();
      }
    },
  };
}

/** Whether there was room for all of it. A file system that packs its files gives zeros none, so it is noise. */
function fill(path: string): boolean {
  try {
    writeFileSync(path, randomBytes(RESERVE_BYTES), { mode: 0o600 });
    return true;
  } catch (error) {
    // What was written before stands, also on a disk that is broken in another way.
    if (!(error instanceof Error && "code" in error)) throw error;
    if (isDiskFull(error)) rmSync(path, { force: true });
    return false;
  }
}
