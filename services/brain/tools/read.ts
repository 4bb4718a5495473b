// Reads a file as numbered lines. The file streams by: only the lines asked for are kept, whatever its size.
import { z } from "zod";
import { textOf } from "./excerpt.ts";
import { path, placed } from "./files.ts";
import { defineTool, type Tool, type ToolPlace, type ToolResult } from "./tool.ts";

export const READ_LINES_MAX = 2_000;
export const READ_BYTES_MAX = 48 * 1024;
export const READ_LINE_CHARACTERS_MAX = 2_000;
/** How far into a file a line is looked for. */
export const READ_SCAN_BYTES_MAX = 64 * 1024 * 1024;
const BINARY_PROBE_BYTES = 8 * 1024;
const LINE_FEED = 10;

const input = z.strictObject({
  path,
  line: z.int().min(1).optional().describe("First line to read; 1 when absent"),
  lines: z.int().min(1).max(READ_LINES_MAX).optional().describe(`Lines to read; ${READ_LINES_MAX} when absent`),
});

type Range = { first: number; count: number };
type Reading = { text: string[]; line: number; bytes: number; full: boolean; binary: boolean };

export function readTool(folder: string): Tool {
  return defineTool({
    name: "read",
    description: "Read a text file of the sandbox, as numbered lines.",
    effect: "reads",
    input,
    run: (asked, place) => read(placed(folder, asked.path), asked, place),
  });
}

async function read(target: string, asked: z.output<typeof input>, { link }: ToolPlace): Promise<ToolResult> {
  const range = { first: asked.line ?? 1, count: asked.lines ?? READ_LINES_MAX };
  const { info, bytes } = link.readFile(target, 0, READ_SCAN_BYTES_MAX);
  const [reading, { size }] = await Promise.all([scan(bytes, range), info]);
  return { outcome: { status: "ok" }, text: report(reading, range, size) };
}

async function scan(chunks: AsyncIterable<Uint8Array>, range: Range): Promise<Reading> {
  const reading: Reading = { text: [], line: 0, bytes: 0, full: false, binary: false };
  let rest = new Uint8Array(0);
  let seen = 0;
  for await (const chunk of chunks) {
    reading.binary ||= seen < BINARY_PROBE_BYTES && chunk.subarray(0, BINARY_PROBE_BYTES - seen).includes(0);
    seen += chunk.byteLength;
    if (reading.binary) break;
    rest = takeLines(reading, range, rest.byteLength === 0 ? chunk : Buffer.concat([rest, chunk]));
    if (reading.full) break;
  }
  if (!reading.full && !reading.binary && rest.byteLength > 0) takeLine(reading, range, rest);
  return reading;
}

/** Takes every whole line; answers with what is left of an unfinished one. A line's middle is not kept for ever. */
function takeLines(reading: Reading, range: Range, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  let start = 0;
  for (let end = bytes.indexOf(LINE_FEED); end !== -1 && !reading.full; end = bytes.indexOf(LINE_FEED, start)) {
    takeLine(reading, range, bytes.subarray(start, end));
    start = end + 1;
  }
  const keep = bytes.subarray(start, Math.min(bytes.byteLength, start + 4 * READ_LINE_CHARACTERS_MAX + 4));
  return new Uint8Array(keep);
}

function takeLine(reading: Reading, { first, count }: Range, bytes: Uint8Array): void {
  reading.line++;
  if (reading.line < first) return;
  const text = numbered(reading.line, bytes);
  reading.bytes += Buffer.byteLength(text) + 1;
  if (reading.bytes > READ_BYTES_MAX && reading.text.length > 0) {
    reading.full = true;
    return;
  }
  reading.text.push(text);
  reading.full = reading.text.length >= count;
}

function numbered(line: number, bytes: Uint8Array): string {
  const text = textOf(bytes.subarray(0, 4 * READ_LINE_CHARACTERS_MAX)).replace(/\r$/, "");
  const shown =
    text.length > READ_LINE_CHARACTERS_MAX ? `${text.slice(0, READ_LINE_CHARACTERS_MAX)}[… line cut]` : text;
  return `${line}\t${shown}`;
}

function report(reading: Reading, { first }: Range, size: number): string {
  if (reading.binary) return `A binary file of ${size} bytes; look at it with a command such as file, xxd or strings.`;
  if (size === 0) return "The file is empty.";
  const last = first + reading.text.length - 1;
  if (reading.text.length === 0) return `The file has ${reading.line} lines; there is no line ${first}.`;
  const more = reading.full
    ? [`[Lines ${first} to ${last} of a file of ${size} bytes; read on from line ${last + 1}]`]
    : [];
  return [...reading.text, ...more].join("\n");
}
