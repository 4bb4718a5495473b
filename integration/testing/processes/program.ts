// A program of the install as a child: its lines, when it is ready, how it ended. The kernel kills it with this
// process, also while it is stopped, so nothing is left behind whatever happens to the tests.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { signal } from "./process-tree.ts";

const LINES_MAX = 5_000;
const LAST_LINES_MAX = 20;

export type Exit = Readonly<{ code: number | null; signal: NodeJS.Signals | null }>;

export type Running = Readonly<{
  pid: number;
  /** Resolves when it serves. Rejects, with its last lines, when it ends before that. */
  ready: Promise<void>;
  /** Resolves when it has ended. */
  exited: Promise<Exit>;
  /** The last lines of this run; the very last ones may come a little after its end. */
  lastLines: Lines;
  signal: (name: NodeJS.Signals) => void;
}>;

/** The last lines of a program, over all its runs where nothing else is said. */
export type Lines = string[];

export type CommandLine = Readonly<{
  command: readonly string[];
  /** All of its environment. */
  environment: NodeJS.ProcessEnv;
  cwd: string;
  /** A line of its output that says that it serves. */
  readyLine: RegExp;
}>;

/** Starts it; does not wait until it is ready. */
export async function launch({ command, environment, cwd, readyLine }: CommandLine, lines: Lines): Promise<Running> {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...command], {
    cwd,
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit").then(([code, killedBy]): Exit => ({ code, signal: killedBy }));
  const isReady = Promise.withResolvers<void>();
  const lastLines: Lines = [];
  const take = (line: string) => {
    add(lines, line);
    add(lastLines, line, LAST_LINES_MAX);
    if (readyLine.test(line)) isReady.resolve();
  };
  read(child.stdout, take);
  read(child.stderr, take);
  await once(child, "spawn");
  const pid = child.pid ?? 0;
  const ready = Promise.race([isReady.promise, exited.then((exit) => endedEarly(command, exit, lines))]);
  // Whoever kills it on purpose does not wait for it to be ready.
  ready.catch(() => undefined);
  return { pid, ready, exited, lastLines, signal: (name) => signal(pid, name) };
}

export function add(lines: Lines, line: string, linesMax = LINES_MAX): void {
  lines.push(line);
  if (lines.length > linesMax) lines.splice(0, lines.length - linesMax);
}

function read(stream: Readable, take: (line: string) => void): void {
  createInterface({ input: stream }).on("line", take);
}

function endedEarly(command: readonly string[], exit: Exit, lines: Lines): never {
  const how = exit.signal === null ? `exit code ${exit.code}` : exit.signal;
  throw new Error(`${command.join(" ")} ended with ${how} before it was ready:\n${lines.slice(-20).join("\n")}`);
}
