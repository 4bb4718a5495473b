// The search itself. Runs in a process of its own, because a regular expression can run for ever and nothing
// but the end of the process stops it. Prints one JSON value.
import { closeSync, readFileSync } from "node:fs";
import { z } from "zod";
import { failure, requests } from "#schemas/wire/message.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { SEARCH_ANSWER_BYTES_MAX, SEARCH_FILE_BYTES_MAX, SEARCH_LINE_CHARACTERS_MAX } from "../limits.ts";
import { globMatcher } from "./glob.ts";
import { entriesOf, isSkipped, openChildOrNothing } from "./list.ts";
import { type OpenFolder, openWorkspace, type Workspace } from "./workspace.ts";

export const searchJob = z.object({ root: z.string(), request: requests.fileSearch });
export const searchOutput = z.union([
  z.object({
    matches: z.array(z.object({ path: z.string(), line: z.number(), text: z.string() })),
    truncated: z.boolean(),
    filesSearched: z.number(),
  }),
  z.object({ failure }),
]);

type Search = {
  workspace: Workspace;
  pattern: RegExp;
  wants: (path: string) => boolean;
  matchesMax: number;
  matches: Array<{ path: string; line: number; text: string }>;
  bytes: number;
  truncated: boolean;
  filesSearched: number;
};

const BINARY_CHECK_BYTES = 8_000;

export function runSearchJob(argument: string): z.output<typeof searchOutput> {
  try {
    const { root, request } = searchJob.parse(JSON.parse(argument));
    const search: Search = {
      workspace: openWorkspace(root),
      pattern: new RegExp(request.pattern, request.ignoreCase ? "i" : ""),
      wants: request.glob === undefined ? () => true : globMatcher(request.glob),
      matchesMax: request.matchesMax,
      ...{ matches: [], bytes: 0, truncated: false, filesSearched: 0 },
    };
    searchPath(search, request.path);
    const { matches, truncated, filesSearched } = search;
    return { matches, truncated, filesSearched };
  } catch (error) {
    return { failure: failureOf(error) };
  }
}

function searchPath(search: Search, path: string): void {
  const folder = openFolderOrNothing(search.workspace, path);
  if (folder !== undefined) {
    searchFolder(search, folder, "");
    return;
  }
  const { descriptor, path: real } = search.workspace.openFile(path);
  closeSync(descriptor);
  searchFile(search, real);
}

function openFolderOrNothing(workspace: Workspace, path: string): OpenFolder | undefined {
  try {
    return workspace.openFolder(path);
  } catch (error) {
    if (failureOf(error).message.includes("is no folder")) return undefined;
    throw error;
  }
}

function searchFolder(search: Search, folder: OpenFolder, prefix: string): void {
  try {
    for (const entry of entriesOf(folder, prefix)) {
      if (search.truncated) return;
      if (entry.type === "file" && entry.size <= SEARCH_FILE_BYTES_MAX && search.wants(entry.path)) {
        searchFile(search, `${folder.path}/${entry.path.slice(prefix.length)}`);
      }
      if (entry.type !== "directory" || isSkipped(entry.path)) continue;
      const child = openChildOrNothing(folder, entry.path.slice(prefix.length));
      if (child !== undefined) searchFolder(search, child, `${entry.path}/`);
    }
  } finally {
    folder.close();
  }
}

function searchFile(search: Search, path: string): void {
  const bytes = readOrNothing(search.workspace, path);
  if (bytes === undefined || bytes.subarray(0, BINARY_CHECK_BYTES).includes(0)) return;
  search.filesSearched++;
  const shown = path.slice(search.workspace.root.length + 1);
  for (const [index, text] of bytes.toString("utf8").split(/\r?\n/).entries()) {
    if (!search.pattern.test(text)) continue;
    const line = { path: shown, line: index + 1, text: text.slice(0, SEARCH_LINE_CHARACTERS_MAX) };
    search.bytes += Buffer.byteLength(JSON.stringify(line));
    search.truncated = search.matches.length >= search.matchesMax || search.bytes > SEARCH_ANSWER_BYTES_MAX;
    if (search.truncated) return;
    search.matches.push(line);
  }
}

/** A file that vanishes or may not be read does not end the search. */
function readOrNothing(workspace: Workspace, path: string): Buffer | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = workspace.openFile(path).descriptor;
    return readFileSync(descriptor);
  } catch (error) {
    if (error instanceof Error && "code" in error) return undefined;
    throw error;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
