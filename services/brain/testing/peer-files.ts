// The file requests of a SandboxPeer, over the real file system.
import { createReadStream } from "node:fs";
import { mkdir, readFile as readAll, readdir, stat, writeFile as writeAll } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { type AnswerOf, type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";

export function readFile(path: string, from: number, length: number) {
  const info = describe(path, from, length);
  info.catch(() => undefined);
  return { info, bytes: bytesOf(path, info, from) };
}

async function describe(path: string, from: number, length: number): Promise<AnswerOf<"fileRead">> {
  const { size, mode } = await known(path);
  return { size, from, length: Math.max(0, Math.min(length, size - from)), mode: mode & 0o777 };
}

async function* bytesOf(path: string, info: Promise<AnswerOf<"fileRead">>, from: number): AsyncIterable<Uint8Array> {
  const { length } = await info;
  if (length === 0) return;
  for await (const chunk of createReadStream(path, { start: from, end: from + length - 1 })) {
    if (chunk instanceof Uint8Array) yield chunk;
  }
}

export async function writeFile(path: string, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) {
  const parts: Uint8Array[] = [];
  for await (const part of content) parts.push(part);
  const created = await known(path).then(
    () => false,
    () => true,
  );
  await mkdir(dirname(path), { recursive: true });
  await writeAll(path, Buffer.concat(parts));
  return { size: Buffer.concat(parts).byteLength, created };
}

export async function editFile(path: string, edits: RequestOf<"fileEdit">["edits"]): Promise<AnswerOf<"fileEdit">> {
  await known(path);
  let text = await readAll(path, "utf8");
  let replacements = 0;
  for (const edit of edits) {
    const found = text.split(edit.old).length - 1;
    if (found === 0) throw new Refusal(WireCode.editNoMatch, "The old text is not in the file");
    if (found > 1 && !edit.all) throw new Refusal(WireCode.editManyMatches, `The old text is there ${found} times`);
    text = text.replaceAll(edit.old, () => edit.new);
    replacements += found;
  }
  await writeAll(path, text);
  return { replacements, size: Buffer.byteLength(text) };
}

export async function listFiles(folder: string, { depth, entriesMax }: Omit<RequestOf<"fileList">, "op" | "path">) {
  await known(folder);
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = found
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => relative(folder, path).split("/").length <= depth)
    .sort();
  const entries = await Promise.all(paths.slice(0, entriesMax).map((path) => entry(folder, path)));
  return { entries, truncated: paths.length > entriesMax };
}

async function entry(folder: string, path: string): Promise<AnswerOf<"fileList">["entries"][number]> {
  const { size, mtimeMs, isDirectory } = await stat(path).then((it) => ({
    size: it.size,
    mtimeMs: it.mtimeMs,
    isDirectory: it.isDirectory(),
  }));
  return { path: relative(folder, path), type: isDirectory ? "directory" : "file", size, modifiedMs: mtimeMs };
}

export async function searchFiles(folder: string, request: Omit<RequestOf<"fileSearch">, "op" | "path">) {
  const pattern = new RegExp(request.pattern, request.ignoreCase ? "i" : "");
  const { entries } = await listFiles(folder, { depth: 20, entriesMax: 10_000 });
  const files = entries.filter(({ type }) => type === "file");
  const matches: AnswerOf<"fileSearch">["matches"] = [];
  for (const { path } of files) {
    const lines = (await readAll(join(folder, path), "utf8")).split("\n");
    for (const [index, text] of lines.entries()) if (pattern.test(text)) matches.push({ path, line: index + 1, text });
  }
  const { matchesMax } = request;
  return { matches: matches.slice(0, matchesMax), truncated: matches.length > matchesMax, filesSearched: files.length };
}

async function known(path: string) {
  return stat(path).catch((cause: unknown) => {
    throw new Refusal(WireCode.notFound, `${path} does not exist`, { cause });
  });
}
