// Paths of requests, resolved without leaving the workspace. The kernel resolves a path, links and all; then
// the open file itself is asked where it is, so nobody can move a link between the check and the use.
import { closeSync, constants, fstatSync, mkdirSync, openSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { isDiskFull } from "../commands/spool.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY, O_RDONLY } = constants;

export type OpenFile = Readonly<{ descriptor: number; path: string; size: number; mode: number }>;
/** `at` is a way to the folder that stays true when its path is changed meanwhile. */
export type OpenFolder = Readonly<{ at: string; path: string; close: () => void }>;

export type Workspace = Readonly<{
  root: string;
  /** The real path of a folder. Throws Refusal. */
  directoryPath: (path: string) => string;
  openFile: (path: string) => OpenFile;
  openFolder: (path: string) => OpenFolder;
  /** The folder in which a file is to be written, made if needed, and the file's name in it. */
  openParent: (path: string) => OpenFolder & { name: string };
}>;

export function openWorkspace(directory: string): Workspace {
  mkdirSync(directory, { recursive: true });
  const root = realpathSync(directory);
  const openFolder = (path: string) => openFolderIn(root, resolve(root, path));
  return {
    root,
    directoryPath: (path) => {
      const folder = openFolder(path);
      folder.close();
      return folder.path;
    },
    openFile: (path) => openFileIn(root, resolve(root, path)),
    openFolder,
    openParent: (path) => openParentIn(root, resolve(root, path)),
  };
}

function openFileIn(root: string, path: string): OpenFile {
  const descriptor = openChecked(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const stat = fstatSync(descriptor);
  if (stat.isFile()) {
    return { descriptor, path: readlinkSync(fdPath(descriptor)), size: stat.size, mode: stat.mode & 0o7777 };
  }
  closeSync(descriptor);
  throw new Refusal(WireCode.notAFile, `${path} is ${stat.isDirectory() ? "a folder" : "no regular file"}`);
}

function openFolderIn(root: string, path: string, flags = 0): OpenFolder {
  const descriptor = openChecked(root, path, O_RDONLY | O_DIRECTORY | flags);
  return {
    at: fdPath(descriptor),
    path: readlinkSync(fdPath(descriptor)),
    close: () => closeSync(descriptor),
  };
}

/** A child of an open folder that is itself a folder and no link. */
export function openChildFolder(parent: OpenFolder, name: string): OpenFolder {
  return openFolderIn("/", `${parent.at}/${name}`, O_NOFOLLOW);
}

function openParentIn(root: string, path: string): OpenFolder & { name: string } {
  const name = basename(path);
  if (!isInside(root, path) || path === root) throw outside(path);
  makeFolders(root, dirname(path));
  return { ...openFolderIn(root, dirname(path)), name };
}

/** Goes down from the root one folder at a time, so that no folder is ever made outside. */
function makeFolders(root: string, path: string): void {
  const missing = path.slice(root.length).split("/").filter(Boolean);
  let folder = openFolderIn(root, root);
  for (const name of missing) {
    const parent = folder;
    try {
      makeFolder(`${parent.at}/${name}`);
      folder = openFolderIn(root, `${parent.at}/${name}`);
    } finally {
      parent.close();
    }
  }
  folder.close();
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw refusalOf(error, path);
  }
}

function openChecked(root: string, path: string, flags: number): number {
  let descriptor: number;
  try {
    descriptor = openSync(path, flags);
  } catch (error) {
    // Whether something outside exists is not told either.
    if (!path.startsWith("/proc/self/fd/") && !isInside(root, path)) throw outside(path);
    throw refusalOf(error, path);
  }
  if (isInside(root, readlinkSync(fdPath(descriptor)))) return descriptor;
  closeSync(descriptor);
  throw outside(path);
}

export function fdPath(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

function isInside(root: string, path: string): boolean {
  return root === "/" || path === root || path.startsWith(`${root}/`);
}

function outside(path: string): Refusal {
  return new Refusal(WireCode.outsideWorkspace, `${path} is outside the workspace`);
}

const REFUSALS: Record<string, { code: string; says: string }> = {
  ENOENT: { code: WireCode.notFound, says: "does not exist" },
  ENOTDIR: { code: WireCode.notFound, says: "is no folder, or a part of its path is none" },
  EISDIR: { code: WireCode.notAFile, says: "is a folder" },
  ENXIO: { code: WireCode.notAFile, says: "is no regular file" },
  ELOOP: { code: WireCode.notFound, says: "is a link that leads nowhere or in a circle" },
  ENAMETOOLONG: { code: WireCode.badRequest, says: "has a name that is too long" },
  EACCES: { code: "not_permitted", says: "may not be opened by the sandbox's user" },
  EPERM: { code: "not_permitted", says: "may not be changed by the sandbox's user" },
  EROFS: { code: "not_permitted", says: "is on a read-only file system" },
};

export function diskFull(cause: unknown): Refusal {
  const next = "Delete what is not needed, or end background commands that write";
  return new Refusal(WireCode.diskFull, "The sandbox's disk is full", { next, cause });
}

/** A file system's error as one that is answered; anything else stays what it is. */
export function refusalOf(error: unknown, path: string): unknown {
  if (isDiskFull(error)) return diskFull(error);
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
  const known = REFUSALS[code];
  return known === undefined ? error : new Refusal(known.code, `${path} ${known.says}`, { cause: error });
}
