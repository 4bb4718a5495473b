import { lstatSync, readdirSync, type Stats } from "node:fs";
import type { AnswerOf } from "#schemas/wire/message.ts";
import type { Operation } from "../channel/operation.ts";
import { LIST_ANSWER_BYTES_MAX } from "../limits.ts";
import { type OpenFolder, openChildFolder, refusalOf, type Workspace } from "./workspace.ts";

type Entry = AnswerOf<"fileList">["entries"][number];

const FOLDERS_OPEN_MAX = 512;

/** Level by level, so that a list that is cut still shows the top. Links are named, not followed. */
export function fileList(workspace: Workspace): Operation<"fileList"> {
  return async ({ path, depth, entriesMax }, { signal }) => {
    const entries: Entry[] = [];
    let bytes = 0;
    let level: Array<{ folder: OpenFolder; prefix: string }> = [{ folder: workspace.openFolder(path), prefix: "" }];
    let truncated = false;
    for (let depthNow = 1; level.length > 0; depthNow++) {
      const next: typeof level = [];
      for (const { folder, prefix } of level) {
        const wanted = truncated || signal.aborted ? [] : entriesOf(folder, prefix);
        for (const entry of wanted) {
          bytes += Buffer.byteLength(JSON.stringify(entry));
          truncated ||= entries.length >= entriesMax || bytes > LIST_ANSWER_BYTES_MAX;
          if (truncated) break;
          entries.push(entry);
          if (entry.type !== "directory" || depthNow >= depth || isSkipped(entry.path)) continue;
          if (next.length < FOLDERS_OPEN_MAX) next.push(...openChild(folder, entry.path));
          else truncated = true;
        }
        folder.close();
      }
      level = next;
    }
    return { entries, truncated };
  };
}

export function entriesOf(folder: OpenFolder, prefix: string): Entry[] {
  return readNames(folder).flatMap((name) => {
    const stat = lstatSync(`${folder.at}/${name}`, { throwIfNoEntry: false });
    return stat === undefined ? [] : [entryOf(prefix + name, stat)];
  });
}

function readNames(folder: OpenFolder): string[] {
  try {
    return readdirSync(folder.at).sort();
  } catch (error) {
    throw refusalOf(error, folder.path);
  }
}

function entryOf(path: string, stat: Stats): Entry {
  const type = stat.isFile() ? "file" : stat.isDirectory() ? "directory" : stat.isSymbolicLink() ? "symlink" : "other";
  return { path, type, size: stat.size, modifiedMs: stat.mtimeMs };
}

/** Git's own files are many and nobody edits them by hand. */
export function isSkipped(path: string): boolean {
  return path === ".git" || path.endsWith("/.git");
}

/** A folder that vanishes or may not be read is shown, not entered. */
function openChild(folder: OpenFolder, path: string): Array<{ folder: OpenFolder; prefix: string }> {
  const child = openChildOrNothing(folder, path.slice(path.lastIndexOf("/") + 1));
  return child === undefined ? [] : [{ folder: child, prefix: `${path}/` }];
}

export function openChildOrNothing(folder: OpenFolder, name: string): OpenFolder | undefined {
  try {
    return openChildFolder(folder, name);
  } catch (error) {
    if (error instanceof Error && "code" in error) return undefined;
    throw error;
  }
}
