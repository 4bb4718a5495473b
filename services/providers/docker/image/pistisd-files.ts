// The folder that every sandbox has at /opt/pistis, as a tar file whose last entry says that all before it is there.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { Readable } from "node:stream";
import { Refusal } from "#shared/errors/errors.ts";
import { TAR_END, type TarEntry, tarHeader, tarPadding } from "../engine/tar.ts";

/** Written last: where it is, the volume is whole. */
export const COMPLETE = ".complete";
/** Its size is compared too: a power loss may leave names without content. */
export const PROGRAM = "pistisd";

export type PistisdFiles = Readonly<{
  /** Of all names, modes and contents. */
  digest: string;
  programBytes: number;
  /** The tar file, new each time. */
  tar: () => Readable;
}>;

type Entry = Readonly<{ entry: TarEntry; from: string }>;

/** Throws Refusal `pistisd_missing`. */
export async function readPistisdFiles(folder: string): Promise<PistisdFiles> {
  const entries = await entriesOf(folder);
  const program = entries.find(({ entry }) => entry.path === PROGRAM || entry.path === "pistisd-entry");
  if (program === undefined) {
    throw new Refusal("pistisd_missing", `${folder} does not hold pistisd`, { next: "Run `npm run build:pistisd`." });
  }
  return {
    digest: await digestOf(entries),
    programBytes: bytesOf(entries.find(({ entry }) => entry.path === PROGRAM)),
    tar: () => Readable.from(tarOf(entries)),
  };
}

async function entriesOf(folder: string): Promise<Entry[]> {
  const names = (await readdir(folder, { recursive: true }).catch(() => []))
    .filter((name) => !name.startsWith("."))
    .sort();
  return Promise.all(names.map((name) => entryOf(folder, name)));
}

async function entryOf(folder: string, name: string): Promise<Entry> {
  const from = join(folder, name);
  const stat = await lstat(from);
  const path = relative(folder, from);
  const about = { path, uid: 0, mode: stat.isDirectory() || (stat.mode & 0o100) !== 0 ? 0o755 : 0o644 };
  if (stat.isDirectory()) return { from, entry: { ...about, type: "folder" } };
  if (stat.isSymbolicLink()) return { from, entry: { ...about, type: "link", target: await readlink(from) } };
  return { from, entry: { ...about, type: "file", bytes: stat.size } };
}

function bytesOf(found: Entry | undefined): number {
  return found?.entry.type === "file" ? found.entry.bytes : 0;
}

async function digestOf(entries: readonly Entry[]): Promise<string> {
  const hash = createHash("sha256");
  for (const { entry, from } of entries) {
    hash.update(`${JSON.stringify(entry)}\n`);
    if (entry.type === "file") for await (const chunk of createReadStream(from)) hash.update(chunk);
  }
  return hash.digest("hex");
}

async function* tarOf(entries: readonly Entry[]): AsyncGenerator<Buffer> {
  for (const { entry, from } of entries) {
    yield tarHeader(entry);
    if (entry.type !== "file") continue;
    for await (const chunk of createReadStream(from, { highWaterMark: 1024 * 1024 })) yield chunk;
    yield tarPadding(entry.bytes);
  }
  yield tarHeader({ path: COMPLETE, mode: 0o644, uid: 0, type: "file", bytes: 0 });
  yield TAR_END;
}
