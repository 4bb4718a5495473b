// The file tools besides `read`. pistisd keeps every path inside /workspace; here a relative path is put under
// the folder that the agent works in.
import { z } from "zod";
import { type AnswerOf, PATH_BYTES_MAX } from "#schemas/wire/message.ts";
import { clipped } from "./excerpt.ts";
import { defineTool, type Tool, type ToolResult } from "./tool.ts";

export const WRITE_CHARACTERS_MAX = 4_000_000;
export const LIST_ENTRIES_MAX = 1_000;
export const SEARCH_MATCHES_MAX = 200;
export const SEARCH_MS_MAX = 30_000;
const MATCH_CHARACTERS_MAX = 300;

export const path = z.string().min(1).max(PATH_BYTES_MAX);

/** `asked` as an absolute path: a relative one is under `folder`. */
export function placed(folder: string, asked: string): string {
  if (asked.startsWith("/")) return asked;
  return asked === "." ? folder : `${folder}/${asked}`;
}

export function writeTool(folder: string): Tool {
  return defineTool({
    name: "write",
    description: "Write a whole file, replacing what was there; missing folders are made.",
    effect: "writes",
    input: z.strictObject({ path, content: z.string().max(WRITE_CHARACTERS_MAX) }),
    run: async (input, { link, callId }) => {
      const bytes = Buffer.from(input.content, "utf8");
      const target = placed(folder, input.path);
      const { size, created } = await link.writeFile({ callId, path: target, size: bytes.byteLength }, [bytes]);
      return ok(`${created ? "Created" : "Replaced"} ${input.path} (${size} bytes).`);
    },
  });
}

export function editTool(folder: string): Tool {
  const edit = z.strictObject({
    old: z.string().min(1).describe("Text as it stands in the file, exact, found once unless all is true"),
    new: z.string(),
    all: z.boolean().optional().describe("Replace every occurrence"),
  });
  return defineTool({
    name: "edit",
    description: "Replace exact texts in a file. Line ends, byte order mark and everything else stay as they are.",
    effect: "writes",
    input: z.strictObject({ path, edits: z.array(edit).min(1).max(100) }),
    run: async (input, { link, callId }) => {
      const edits = input.edits.map((one) => ({ old: one.old, new: one.new, all: one.all ?? false }));
      const { replacements, size } = await link.editFile({ callId, path: placed(folder, input.path), edits });
      const places = `${replacements} ${replacements === 1 ? "replacement" : "replacements"}`;
      return ok(`Edited ${input.path}: ${places}; it has ${size} bytes now.`);
    },
  });
}

export function listTool(folder: string): Tool {
  return defineTool({
    name: "list",
    description: "List a folder. Folders end with a slash; sizes are in bytes.",
    effect: "reads",
    input: z.strictObject({
      path: path.optional().describe(`${folder} when absent`),
      depth: z.int().min(1).max(20).optional().describe("Levels of folders; 1 when absent"),
    }),
    run: async (input, { link }) => {
      const asked = { path: placed(folder, input.path ?? "."), depth: input.depth ?? 1, entriesMax: LIST_ENTRIES_MAX };
      return ok(listing(await link.listFiles(asked)));
    },
  });
}

export function searchTool(folder: string): Tool {
  return defineTool({
    name: "search",
    description: "Search file contents with a JavaScript regular expression; answers path:line: text.",
    effect: "reads",
    input: z.strictObject({
      pattern: z.string().min(1).max(2_000),
      path: path.optional().describe(`File or folder to search; ${folder} when absent`),
      glob: z.string().min(1).max(500).optional().describe("Only files whose path matches, e.g. **/*.ts"),
      ignoreCase: z.boolean().optional(),
    }),
    run: async (input, { link }) => {
      const found = await link.searchFiles({
        pattern: input.pattern,
        path: placed(folder, input.path ?? "."),
        ignoreCase: input.ignoreCase ?? false,
        matchesMax: SEARCH_MATCHES_MAX,
        timeoutMs: SEARCH_MS_MAX,
        ...(input.glob === undefined ? {} : { glob: input.glob }),
      });
      return ok(matches(found));
    },
  });
}

function listing({ entries, truncated }: AnswerOf<"fileList">): string {
  if (entries.length === 0) return "The folder is empty.";
  const lines = entries.map(({ path: name, type, size }) => {
    if (type === "directory") return `${name}/`;
    return type === "file" ? `${name}  ${size}` : `${name}  (${type})`;
  });
  const rest = truncated ? [`[Only the first ${entries.length} entries; list a folder below for the rest]`] : [];
  return [...lines, ...rest].join("\n");
}

function matches({ matches: found, truncated, filesSearched }: AnswerOf<"fileSearch">): string {
  if (found.length === 0) return `No match in ${filesSearched} files.${truncated ? " Not all could be searched." : ""}`;
  const lines = found.map(({ path: file, line, text }) => `${file}:${line}: ${clipped(text, MATCH_CHARACTERS_MAX)}`);
  const rest = truncated ? [`[Only the first ${found.length} matches; narrow the pattern, path or glob]`] : [];
  return [...lines, ...rest].join("\n");
}

function ok(text: string): ToolResult {
  return { outcome: { status: "ok" }, text };
}
