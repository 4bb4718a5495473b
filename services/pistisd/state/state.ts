// What the daemon knows from one start to the next. Lives outside /workspace, readable by its own user only.
import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { openReserve, type Reserve } from "./reserve.ts";

const stateFile = z.object({
  /** Marks the processes that this daemon started, so that a later start knows them. */
  instance: z.string().regex(/^[0-9a-f]{8,64}$/),
  /** The newest epoch of a brain. */
  epoch: z.number().int().nonnegative(),
  pass: z.string().nullable(),
  /** The machine's boot in which the records of calls began. */
  hostBoot: z.string(),
  /** The machine itself went down since: records of calls may have been lost with it. */
  recordsComplete: z.boolean(),
});

type StateFile = z.output<typeof stateFile>;

export type State = Readonly<{
  directory: string;
  /** New at every start of the daemon. */
  bootId: string;
  instance: string;
  epoch: () => number;
  pass: () => string | null;
  /** Whether a call without a record certainly never ran. */
  recordsComplete: boolean;
  keepEpoch: (epoch: number) => void;
  keepPass: (pass: string | null) => void;
  reserve: Reserve;
}>;

/** Creates the directory when there is none. Throws when it cannot be written. */
export function openState(directory: string): State {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  closeToOthers(directory);
  const path = join(directory, "state.json");
  const reserve = openReserve(directory);
  const hostBoot = hostBootId();
  const kept = readState(path);
  let current: StateFile = kept ?? { ...freshState(), hostBoot };
  if (current.hostBoot !== hostBoot) current = { ...current, hostBoot, recordsComplete: false };
  const write = (next: StateFile) => {
    reserve.spend(() => replaceFile(path, JSON.stringify(next)));
    current = next;
  };
  write(current);
  return {
    directory,
    bootId: randomUUID(),
    instance: current.instance,
    epoch: () => current.epoch,
    pass: () => current.pass,
    recordsComplete: current.recordsComplete,
    keepEpoch: (epoch) => write({ ...current, epoch }),
    keepPass: (pass) => write({ ...current, pass }),
    reserve,
  };
}

function closeToOthers(directory: string): void {
  try {
    chmodSync(directory, 0o700);
  } catch (error) {
    // The folder may be somebody else's who let us in; the files in it are closed either way.
    if (!(error instanceof Error && "code" in error && error.code === "EPERM")) throw error;
  }
}

function freshState(): StateFile {
  return {
    instance: randomUUID().replaceAll("-", ""),
    epoch: 0,
    pass: null,
    hostBoot: "",
    recordsComplete: true,
  };
}

function readState(path: string): StateFile | undefined {
  const text = readTextOrNothing(path);
  return text === undefined ? undefined : stateFile.parse(JSON.parse(text));
}

function readTextOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function replaceFile(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}

function hostBootId(): string {
  return readTextOrNothing("/proc/sys/kernel/random/boot_id")?.trim() ?? "unknown";
}
