// Looks for canaries in bytes, whatever they are: GNU grep with all of them at once, taking NUL for a line's end.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

/** An unmistakable value; `name` is what a report calls it. */
export type Canary = Readonly<{ name: string; value: string }>;

export type Found = Readonly<{ name: string; where: string }>;

export type Scanner = Readonly<{
  /** In every file below the folder, by its path in it. */
  folder: (path: string) => Promise<Found[]>;
  stream: (where: string, bytes: Readable) => Promise<Found[]>;
  close: () => void;
}>;

/** Scans for each value as it is and as a part of something in base64, as in a header with a password. */
export function openScanner(canaries: readonly Canary[]): Scanner {
  const forms = new Map(canaries.flatMap(({ name, value }) => formsOf(value).map((form) => [form, name] as const)));
  const home = mkdtempSync(join(tmpdir(), "pistis-canaries-"));
  const patterns = join(home, "patterns");
  writeFileSync(patterns, [...forms.keys()].join("\n"), { mode: 0o600 });
  const nameOf = (form: string) => forms.get(form) ?? form;
  return {
    folder: async (path) => {
      const lines = await grep(["--recursive", "--devices=skip", "--with-filename", "--null", "."], patterns, {
        cwd: path,
      });
      return unique(pairs(lines).map(([where, form]) => ({ name: nameOf(form), where })));
    },
    stream: async (where, bytes) => {
      const lines = await grep(["--no-filename", "-"], patterns, { input: bytes });
      return unique(lines.map((form) => ({ name: nameOf(form), where })));
    },
    close: () => rmSync(home, { recursive: true, force: true }),
  };
}

/** In base64 a value looks one of three ways, by its place; its first and last letters depend on what is beside it. */
function formsOf(value: string): string[] {
  const inBase64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]).toString("base64");
    return text
      .slice(before === 0 ? 0 : before + 1)
      .replace(/=+$/, "")
      .slice(0, -2);
  });
  return [value, ...inBase64];
}

type GrepOptions = Readonly<{ cwd?: string; input?: Readable }>;

async function grep(args: readonly string[], patterns: string, { cwd, input }: GrepOptions): Promise<string[]> {
  const options = ["--text", "--only-matching", "--fixed-strings", "--null-data", `--file=${patterns}`];
  const child = spawn("grep", [...options, ...args], {
    ...(cwd === undefined ? {} : { cwd }),
    env: { PATH: process.env["PATH"], LC_ALL: "C" },
    stdio: "pipe",
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const feeding = pipeline(input ?? Readable.from([]), child.stdin);
  const [output, errors] = await Promise.all([buffer(child.stdout), buffer(child.stderr), feeding]);
  const status = await ended;
  // 2 with output on standard error is a file that vanished while it was read, as a socket or a log that was turned over.
  if (status === 2 && !/No such file|No such device/.test(String(errors))) throw new Error(`grep failed: ${errors}`);
  return output
    .toString("latin1")
    .split("\0")
    .filter((line) => line !== "");
}

function pairs(lines: readonly string[]): [string, string][] {
  return lines.flatMap((line, index): [string, string][] => (index % 2 === 0 ? [[line, lines[index + 1] ?? ""]] : []));
}

function unique(found: readonly Found[]): Found[] {
  return [...new Map(found.map((one) => [`${one.name} ${one.where}`, one])).values()];
}
