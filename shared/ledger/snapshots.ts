// Folds of long sessions, kept so that opening one reads only what came after. A snapshot is a cache: the ledger is
// the truth, and whatever does not fit it exactly counts as not there.
import type { z } from "zod";
import type { Folded } from "./handle-command.ts";
import { NEW_SESSION, type Version } from "./ledger.ts";

/** After so many more messages of a session its fold is worth keeping anew. */
export const SNAPSHOT_EVERY_MESSAGES = 1_000;

export type SnapshotKey = Readonly<{
  session: string;
  /** Whose fold it is. */
  fold: string;
  /** Of the fold's code: one of another version is not found. */
  foldVersion: number;
}>;

export type Snapshot = Readonly<{
  version: Version;
  /** Anything that JSON can hold. */
  state: unknown;
}>;

export interface Snapshots {
  /** The newest one whose version is that of a message which the mirror has, as the mirror has it. */
  load(key: SnapshotKey): Promise<Snapshot | undefined>;
  /** An older one than there is changes nothing. */
  save(key: SnapshotKey, snapshot: Snapshot): Promise<void>;
}

/** Where nothing is kept, as for a ledger in memory: every fold starts from nothing. */
export const noSnapshots: Snapshots = {
  load: async () => undefined,
  save: async () => undefined,
};

/** In this process, for tests: it keeps what JSON makes of it. */
export function memorySnapshots(): Snapshots {
  const kept = new Map<string, { text: string; version: Version; foldVersion: number }>();
  const nameOf = ({ session, fold }: SnapshotKey) => `${session} ${fold}`;
  return {
    load: async (key) => {
      const found = kept.get(nameOf(key));
      if (found?.foldVersion !== key.foldVersion) return undefined;
      return { version: found.version, state: JSON.parse(found.text) };
    },
    save: async (key, { version, state }) => {
      const before = kept.get(nameOf(key));
      const isNewer = before === undefined || before.version.sequence < version.sequence;
      if (isNewer) kept.set(nameOf(key), { text: JSON.stringify(state), version, foldVersion: key.foldVersion });
    },
  };
}

export type SnapshotForm<State> = Readonly<{
  fold: string;
  /** To be raised with every change of what the fold makes of the same messages, or of its form. */
  foldVersion: number;
  /** Reads what `write` gave; refuses anything else. */
  read: z.ZodType<State>;
  write: (state: State) => unknown;
}>;

/** The fold that is kept, or `initial` at the start of the session. A snapshot that cannot be had is no failure. */
export async function foldFrom<State>(
  snapshots: Snapshots,
  form: SnapshotForm<State>,
  session: string,
  initial: State,
  onFailure: (error: unknown) => void,
): Promise<Folded<State>> {
  try {
    const { fold, foldVersion, read } = form;
    const found = await snapshots.load({ session, fold, foldVersion });
    if (found !== undefined) return { state: read.parse(found.state), version: found.version };
  } catch (error) {
    onFailure(error);
  }
  return { state: initial, version: NEW_SESSION };
}

/** Resolves when it is kept, or could not be. */
export async function keepFold<State>(
  snapshots: Snapshots,
  form: SnapshotForm<State>,
  session: string,
  { state, version }: Folded<State>,
  onFailure: (error: unknown) => void,
): Promise<void> {
  try {
    const { fold, foldVersion, write } = form;
    await snapshots.save({ session, fold, foldVersion }, { version, state: write(state) });
  } catch (error) {
    onFailure(error);
  }
}
