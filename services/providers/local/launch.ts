// Starts bubblewrap and waits until the isolation stands. Whatever is secret or long goes over descriptors, not
// over arguments: a sandbox can read its own init's command line.
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { Socket } from "node:net";
import { z } from "zod";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { inheritedDescriptors } from "./inherited-descriptors.ts";
import { type ProcessIdentity, startTicksOf, untilGone } from "./process-identity.ts";

/** The child's descriptors. A single digit each: a plain shell knows no others. */
export const Descriptor = { args: 3, info: 4, token: 5, ready: 6, seccomp: 7 } as const;

const START_MS_MAX = 30_000;
/** What is kept of what the sandbox's first processes say, and what is read of it at all. */
const STDERR_KEPT_BYTES = 8 * 1024;
const STDERR_READ_BYTES_MAX = 1024 * 1024;

const info = z.object({ "child-pid": z.number().int().positive() });

export type LaunchRequest = Readonly<{
  command: readonly string[];
  env: Record<string, string>;
  args: readonly string[];
  token: string;
  seccomp: Uint8Array | undefined;
}>;

export type Guest = Readonly<{
  /** Process 1 of the sandbox: when it dies, the kernel kills all others. */
  init: ProcessIdentity;
  /** Resolves when every process of the sandbox is gone, with the last that it wrote to standard error. */
  ended: Promise<{ lastWords: string }>;
}>;

/** Throws Retryable `sandbox_start_failed` or `sandbox_start_timed_out`; nothing runs then. */
export async function launch(request: LaunchRequest): Promise<Guest> {
  const [file = "", ...args] = request.command;
  const child = spawnCovered(file, args, request);
  const lastWords = keepTail(socketOf(child, 2));
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
    child.once("error", (error) => lastWords.add(Buffer.from(error.message)));
  });
  give(child, Descriptor.args, request.args.map((argument) => `${argument}\0`).join(""));
  give(child, Descriptor.token, request.token);
  if (request.seccomp !== undefined) give(child, Descriptor.seccomp, request.seccomp);
  const init = await started(child, closed, lastWords.text);
  return { init, ended: closed.then(() => untilGone(init)).then(() => ({ lastWords: lastWords.text() })) };
}

/** What this process inherited from its own parent must not reach the sandbox: it is covered by /dev/null. */
function spawnCovered(file: string, args: readonly string[], { env, seccomp }: LaunchRequest): ChildProcess {
  const nothing = openSync("/dev/null", "r");
  const stdio: StdioOptions = ["ignore", "ignore", "pipe", "pipe", "pipe", "pipe", "pipe"];
  stdio[Descriptor.seccomp] = seccomp === undefined ? "ignore" : "pipe";
  const inherited = new Set(inheritedDescriptors());
  for (let at = stdio.length; at <= Math.max(...inherited); at++) stdio[at] = inherited.has(at) ? nothing : "ignore";
  try {
    return spawn(file, args, { cwd: "/", env, stdio });
  } finally {
    closeSync(nothing);
  }
}

async function started(child: ChildProcess, closed: Promise<void>, lastWords: () => string): Promise<ProcessIdentity> {
  const timeout = AbortSignal.timeout(START_MS_MAX);
  const kill = () => child.kill("SIGKILL");
  timeout.addEventListener("abort", kill, { once: true });
  const up = Promise.all([textUntil(child, Descriptor.info, "}"), textUntil(child, Descriptor.ready, "")]);
  const outcome = await Promise.race([up, closed]);
  timeout.removeEventListener("abort", kill);
  if (timeout.aborted) throw timedOut(lastWords());
  if (outcome === undefined) throw startFailed(lastWords());
  const pid = info.parse(JSON.parse(outcome[0]))["child-pid"];
  const startTicks = await startTicksOf(pid);
  if (startTicks === undefined) {
    await closed;
    throw startFailed(lastWords());
  }
  return { pid, startTicks };
}

function give(child: ChildProcess, descriptor: number, content: string | Uint8Array): void {
  const socket = socketOf(child, descriptor);
  // A launch that fails closes its end early; the launch itself says why.
  socket.on("error", () => socket.destroy());
  socket.end(content);
}

/** It may come in pieces. Never resolves when there is none: the child's end is noticed by itself. */
function textUntil(child: ChildProcess, descriptor: number, end: string): Promise<string> {
  const socket = socketOf(child, descriptor);
  socket.on("error", () => socket.destroy());
  let text = "";
  return new Promise((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.includes(end)) resolve(text);
    });
  });
}

function socketOf(child: ChildProcess, descriptor: number): Socket {
  const stream = child.stdio[descriptor];
  if (!(stream instanceof Socket))
    throw new Fatal("launch_broken", `Descriptor ${descriptor} of a launch is no socket`);
  return stream;
}

/** Everything there is hostile: past a limit nobody reads it any more. */
function keepTail(stream: Socket) {
  let tail = Buffer.alloc(0);
  let readBytes = 0;
  const add = (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-STDERR_KEPT_BYTES);
    readBytes += chunk.byteLength;
    if (readBytes > STDERR_READ_BYTES_MAX) stream.destroy();
  };
  stream.on("data", add);
  stream.on("error", () => stream.destroy());
  return { add, text: () => tail.toString("utf8").trim() };
}

function startFailed(lastWords: string): Retryable {
  return new Retryable("sandbox_start_failed", `The sandbox did not start: ${lastWords || "it said nothing"}`, {
    retryAfterMs: 1_000,
    next: "`pistis doctor` says what this machine lacks.",
  });
}

function timedOut(lastWords: string): Retryable {
  return new Retryable("sandbox_start_timed_out", `The sandbox did not start in ${START_MS_MAX} ms: ${lastWords}`, {
    retryAfterMs: 5_000,
    next: "Look at the machine's load, then try again.",
  });
}
