// Edits work on the file's bytes, so what is not replaced stays as it is: invalid UTF-8, a byte order mark,
// line ends (C90). Only the texts to find and to put in are brought into the file's own form.
import { closeSync, readFileSync, writeFileSync } from "node:fs";
import { type RequestOf, WireCode } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { Operation } from "../channel/operation.ts";
import { EDIT_BYTES_MAX } from "../limits.ts";
import { openReplacement } from "./replace.ts";
import { refusalOf, type Workspace } from "./workspace.ts";

type Edit = RequestOf<"fileEdit">["edits"][number];
type Form = Readonly<{ encode: (text: string) => Buffer; crlf: boolean; unitBytes: 1 | 2 }>;

export function fileEdit(workspace: Workspace): Operation<"fileEdit"> {
  return async ({ path, edits }, channel) => {
    const before = readWhole(workspace, path);
    const { bytes, replacements } = applyEdits(before, edits, path);
    if (bytes.byteLength > EDIT_BYTES_MAX) throw tooLarge(path, bytes.byteLength);
    channel.checkEpoch();
    const replacement = openReplacement(workspace, path, undefined);
    try {
      writeFileSync(replacement.descriptor, bytes);
      replacement.commit();
    } catch (error) {
      throw refusalOf(error, path);
    } finally {
      closeSync(replacement.descriptor);
      replacement.release();
    }
    return { replacements, size: bytes.byteLength };
  };
}

function readWhole(workspace: Workspace, path: string): Buffer {
  const { descriptor, size } = workspace.openFile(path);
  try {
    if (size > EDIT_BYTES_MAX) throw tooLarge(path, size);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** All edits or none. Throws Refusal `edit_no_match`, `edit_many_matches`. */
export function applyEdits(content: Buffer, edits: readonly Edit[], path: string) {
  const form = formOf(content);
  let bytes = content;
  let replacements = 0;
  for (const [index, edit] of edits.entries()) {
    const { wanted, replacement, matches } = findMatches(bytes, edit, form);
    if (matches.length === 0) throw noMatch(index, path);
    if (matches.length > 1 && !edit.all) throw manyMatches(index, path, matches.length);
    bytes = replaceAt(bytes, matches, wanted.byteLength, replacement);
    replacements += matches.length;
  }
  return { bytes, replacements };
}

/** First with the line ends that the file has, then exactly as given. */
function findMatches(bytes: Buffer, edit: Edit, form: Form) {
  const wanted = form.encode(inLineEnds(edit.old, form));
  const matches = positionsOf(bytes, wanted, form.unitBytes);
  if (matches.length > 0) return { wanted, matches, replacement: form.encode(inLineEnds(edit.new, form)) };
  const exact = form.encode(edit.old);
  return { wanted: exact, matches: positionsOf(bytes, exact, form.unitBytes), replacement: form.encode(edit.new) };
}

function formOf(content: Buffer): Form {
  if (content[0] === 0xff && content[1] === 0xfe) return utf16(content, (buffer) => buffer);
  if (content[0] === 0xfe && content[1] === 0xff) return utf16(content, (buffer) => buffer.swap16());
  const valid = isUtf8(content);
  const crlf = hasCrlf(content.toString("latin1"));
  return { encode: (text) => Buffer.from(text, valid ? "utf8" : singleByteOr(text)), crlf, unitBytes: 1 };
}

function utf16(content: Buffer, order: (buffer: Buffer) => Buffer): Form {
  const even = content.subarray(0, content.byteLength & ~1);
  const text = order(Buffer.from(even)).toString("utf16le");
  return { encode: (part) => order(Buffer.from(part, "utf16le")), crlf: hasCrlf(text), unitBytes: 2 };
}

/** A file that is not UTF-8 is most likely in a single-byte encoding. */
function singleByteOr(text: string): "latin1" | "utf8" {
  return [...text].every((character) => character.charCodeAt(0) < 0x100) ? "latin1" : "utf8";
}

function isUtf8(content: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(content);
    return true;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

/** Whether most lines end with a carriage return and a line feed. */
function hasCrlf(text: string): boolean {
  let crlf = 0;
  let all = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    all++;
    if (text[at - 1] === "\r") crlf++;
  }
  return crlf * 2 > all;
}

function inLineEnds(text: string, form: Form): string {
  return form.crlf ? text.replace(/\r?\n/g, "\r\n") : text;
}

function positionsOf(bytes: Buffer, wanted: Buffer, unitBytes: number): number[] {
  const positions: number[] = [];
  for (let at = bytes.indexOf(wanted); at !== -1; ) {
    const aligned = at % unitBytes === 0;
    if (aligned) positions.push(at);
    at = bytes.indexOf(wanted, aligned ? at + wanted.byteLength : at + 1);
  }
  return positions;
}

function replaceAt(bytes: Buffer, positions: readonly number[], length: number, replacement: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const position of positions) {
    parts.push(bytes.subarray(from, position), replacement);
    from = position + length;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}

function noMatch(index: number, path: string): Refusal {
  return new Refusal(WireCode.editNoMatch, `Edit ${index + 1}: its old text is not in ${path}; nothing was changed`, {
    next: "Read the file again: the text must be exactly as in the file, without line numbers",
  });
}

function manyMatches(index: number, path: string, matches: number): Refusal {
  const message = `Edit ${index + 1}: its old text is ${matches} times in ${path}; nothing was changed`;
  return new Refusal(WireCode.editManyMatches, message, {
    next: "Give more of the text around it, or set all to replace every one",
  });
}

function tooLarge(path: string, size: number): Refusal {
  return new Refusal(WireCode.tooLarge, `${path} has ${size} bytes; an edit takes files of up to ${EDIT_BYTES_MAX}`);
}
