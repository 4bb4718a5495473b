// A sandbox for tests that need no isolation: commands run in a folder that stands for /workspace.
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import type { ExecResult, RequestOf } from "#schemas/wire/message.ts";
import { CallNotRun, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";

export type FolderSandbox = Readonly<{
  link: SandboxLink;
  commands: string[];
  /** Called before each command and each file; throw to break the link there. */
  before: { call: (what: string) => void };
}>;

export function folderSandbox(workspace: string): FolderSandbox {
  const commands: string[] = [];
  const before = { call: (_what: string): void => undefined };
  const calls = new Map<string, Promise<ExecResult> | "barred">();
  const link: SandboxLink = {
    sandboxId: "sbx_folder",
    ready: async () => ({ bootId: "boot" }),
    exec: async (request) => {
      before.call(request.command);
      commands.push(request.command);
      if (calls.has(request.callId)) throw new CallNotRun("The call is barred");
      const running = execute(workspace, request);
      calls.set(request.callId, running);
      return running;
    },
    attach: async ({ callId }) => {
      const call = calls.get(callId) ?? "barred";
      calls.set(callId, call);
      return call === "barred" ? { state: "never-seen" } : { state: "finished", result: await call };
    },
    writeFile: async ({ path, size }, content) => {
      before.call(path);
      await pipeline(content, createWriteStream(path.replace("/workspace", workspace)));
      return { size, created: true };
    },
    close: async () => undefined,
    stop: () => unused("stop"),
    processes: () => unused("processes"),
    signal: () => unused("signal"),
    readOutput: () => unused("readOutput"),
    readFile: () => unused("readFile"),
    editFile: () => unused("editFile"),
    listFiles: () => unused("listFiles"),
    raiseEpoch: () => unused("raiseEpoch"),
    searchFiles: () => unused("searchFiles"),
    probe: () => unused("probe"),
  };
  return { link, commands, before };
}

export function lost(): never {
  throw new SandboxLost("unreachable", "The sandbox does not answer");
}

function unused(method: string): never {
  throw new Error(`Copying in does not use ${method}`);
}

function execute(workspace: string, { command }: Omit<RequestOf<"exec">, "op" | "stream">): Promise<ExecResult> {
  const child = spawn("sh", ["-c", command.replaceAll("/workspace", workspace)], {
    cwd: workspace,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: workspace },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => output.push(chunk));
  return new Promise((resolve) =>
    child.once("close", (code) => {
      const all = Buffer.concat(output);
      resolve({
        outcome: { status: "exited", exitCode: code ?? 1 },
        ...{ outputBytes: all.byteLength, keptBytes: all.byteLength, durationMs: 0, leftRunning: false },
        ...{ head: all.subarray(0, 1_000).toString("base64"), tail: all.subarray(1_000).toString("base64") },
      });
    }),
  );
}
