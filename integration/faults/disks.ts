// The sandboxes' disks as the host sees them, the ones that were taken away or deleted included.
import { existsSync } from "node:fs";
import { link, mkdir, readdir, readFile, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Mark, readMarks, type WrittenFile } from "./observed.ts";

const KEEP_EVERY_MS = 50;

export type Disks = Readonly<{
  /** The sandboxes that have a folder now. */
  sandboxes: () => Promise<string[]>;
  /** The folder of pistisd's own state in the sandbox. */
  pistisdFolder: (sandboxId: string) => string;
  /** Takes the sandbox's folder away, as a machine that burnt down would; what it holds stays readable here. */
  lose: (sandboxId: string) => Promise<void>;
  /** The session of each disk that was taken away. */
  lost: () => Promise<string[]>;
  /** Of deleted sandboxes too, but for what was written in their last moments. */
  marks: () => Promise<Mark[]>;
  files: () => Promise<WrittenFile[]>;
  /** Gives the marks of every sandbox a second name, which the deletion of its folder leaves. Done again and again. */
  keepMarks: () => Promise<void>;
  close: () => Promise<void>;
}>;

/** `folder`: the local provider's. `graveyard`: on the same file system. */
export function openDisks(folder: string, graveyard: string): Disks {
  const living = join(folder, "sandboxes");
  const kept = join(graveyard, "marks");
  const disks = async () => [...(await disksIn(living)), ...(await disksIn(graveyard))];
  let keeping = Promise.resolve();
  const keep = () => {
    keeping = keeping.then(() => keepMarks(living, kept));
    return keeping;
  };
  const often = every(KEEP_EVERY_MS, keep);
  return {
    sandboxes: async () => (await disksIn(living)).map(({ name }) => name),
    pistisdFolder: (sandboxId) => join(living, sandboxId, "pistisd"),
    lose: async (sandboxId) => {
      await mkdir(graveyard, { recursive: true });
      await rename(join(living, sandboxId), join(graveyard, `${sandboxId}.${(await disksIn(graveyard)).length}`));
    },
    lost: async () => (await disksIn(graveyard)).map(({ session }) => session),
    marks: async () => {
      const files = (await disks()).map(({ session, path }) => ({ session, path: marksFile(path) }));
      const read = (await onceEach([...files, ...(await disksIn(kept))])).map(async ({ session, path }) =>
        readMarks(session, (await unlessGone(readFile(path, "utf8"))) ?? ""),
      );
      return (await Promise.all(read)).flat();
    },
    files: async () => {
      const read = (await disks()).map(({ session, path }) => filesIn(session, join(path, "workspace", "written")));
      return (await Promise.all(read)).flat();
    },
    keepMarks: keep,
    close: often.close,
  };
}

/** `close` rejects with what `work` failed with. */
function every(ms: number, work: () => Promise<void>) {
  const closing = new AbortController();
  const { signal } = closing;
  const going = (async () => {
    while (!signal.aborted) {
      await work();
      await delay(ms, undefined, { signal }).catch(() => undefined);
    }
  })();
  going.catch(() => undefined);
  return {
    close: async () => {
      closing.abort();
      await going;
    },
  };
}

type Named = Readonly<{ name: string; session: string; path: string }>;

async function disksIn(folder: string): Promise<Named[]> {
  const names = (await unlessGone(readdir(folder))) ?? [];
  return names
    .filter((name) => name.startsWith("sbx_"))
    .map((name) => ({ name, session: sessionOf(name), path: join(folder, name) }));
}

/** `name`: a sandbox's id, or a name that starts with one. */
export function sessionOf(name: string): string {
  return name.replace(/^sbx_/, "ses_").replace(/\..*$/, "");
}

function marksFile(disk: string): string {
  return join(disk, "workspace", "marks");
}

async function keepMarks(living: string, kept: string): Promise<void> {
  await mkdir(kept, { recursive: true });
  for (const { name, path } of await disksIn(living)) {
    const found = await unlessGone(stat(marksFile(path)));
    const as = join(kept, `${name}.${found?.ino}`);
    if (found !== undefined && !existsSync(as)) await unlessGone(link(marksFile(path), as));
  }
}

/** Files with several names once. */
async function onceEach<T extends Readonly<{ path: string }>>(files: readonly T[]): Promise<T[]> {
  const found = await Promise.all(
    files.map(async (file) => ({ file, inode: (await unlessGone(stat(file.path)))?.ino })),
  );
  const byInode = new Map(found.flatMap(({ file, inode }) => (inode === undefined ? [] : [[inode, file] as const])));
  return [...byInode.values()];
}

async function filesIn(session: string, folder: string): Promise<WrittenFile[]> {
  const names = ((await unlessGone(readdir(folder))) ?? []).filter((name) => name.startsWith("mark-"));
  return Promise.all(
    names.map(async (name) => {
      const content = (await unlessGone(readFile(join(folder, name), "utf8"))) ?? "";
      return { session, id: name.slice("mark-".length), content };
    }),
  );
}

async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
}
