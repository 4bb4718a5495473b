// Every git process of the server: none of the system's or a user's configuration, no hook, no filter, no prompt,
// and no secret in an argument. It ends with this process and with the signal.
import { type ChildProcess, spawn } from "node:child_process";
import { Refusal } from "#shared/errors/errors.ts";
import { gitFailure } from "./git-failure.ts";
import type { GitSource } from "./source.ts";

export type Git = Readonly<{
  /** Its only configuration file. */
  configFile: string;
  /** Shown in no message: people who read the ledger need not know where the server keeps things. */
  stateDir: string;
}>;

export type GitCall = Readonly<{
  args: readonly string[];
  /** Bare repository that it works on. */
  repository?: string;
  /** Allows this one source and authenticates to it; without it git can reach nothing. */
  source?: GitSource;
  signal: AbortSignal;
  /** Gets git's progress lines. */
  onProgress?: (line: string) => void;
  input?: string;
}>;

const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
const ERRORS_KEPT = 16 * 1024;

const SETTINGS = [
  ...["core.hooksPath=/dev/null", "core.fsmonitor=false", "core.askPass=", "credential.helper="],
  ...["protocol.allow=never", "gc.auto=0", "maintenance.auto=false", "fetch.writeCommitGraph=false"],
  // Copying in works within a few hundred MiB however large the repository is (C93).
  ...["core.bigFileThreshold=16m", "pack.threads=1", "pack.windowMemory=64m", "pack.deltaCacheSize=64m"],
  "core.packedGitLimit=256m",
];

/** Resolves with standard output. Throws what git-failure.ts makes of a failure; Refusal `clone_timed_out` after the signal. */
export async function runGit(git: Git, call: GitCall): Promise<string> {
  const { args, repository, source, signal } = call;
  const settings = [...SETTINGS, ...(source === undefined ? [] : [`protocol.${source.protocol}.allow=always`])];
  const all = [
    ...settings.flatMap((setting) => ["-c", setting]),
    ...(repository === undefined ? [] : [`--git-dir=${repository}`]),
    ...args,
  ];
  signal.throwIfAborted();
  // setpriv makes the kernel end git when this process dies, so that nobody goes on writing unseen.
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", "git", ...all], {
    cwd: git.stateDir,
    env: environmentOf(git, source),
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  const kill = () => killGroup(child);
  signal.addEventListener("abort", kill, { once: true });
  try {
    const { code, stdout, stderr } = await finished(child, call);
    if (signal.aborted) throw timedOut(args[0] ?? "");
    if (code !== 0) throw gitFailure(`git ${args[0]}`, withoutSecrets(git, source, stderr));
    return stdout;
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

function environmentOf({ configFile, stateDir }: Git, source: GitSource | undefined): Record<string, string> {
  const plain = {
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: stateDir,
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: configFile,
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "true",
    GIT_SSH_COMMAND: "ssh -o BatchMode=yes",
    GIT_OPTIONAL_LOCKS: "0",
  };
  if (source?.authorization === undefined) return plain;
  const { scope, header } = source.authorization;
  return {
    ...plain,
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `http.${scope}.extraHeader`,
    GIT_CONFIG_VALUE_0: header,
  };
}

function finished(child: ChildProcess, { onProgress, input }: GitCall) {
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString("utf8");
    if (stdout.length > OUTPUT_BYTES_MAX) killGroup(child);
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    const text = chunk.toString("utf8");
    stderr = (stderr + text).slice(-ERRORS_KEPT);
    const line = text.split(/[\r\n]+/).findLast((part) => part.trim() !== "");
    if (line !== undefined) onProgress?.(line.trim());
  });
  child.stdin?.on("error", (error) => {
    stderr += error.message;
  });
  child.stdin?.end(input ?? "");
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve, reject) => {
    child.once("error", (cause) => reject(gitMissing(cause)));
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** git's own children too: they are of its group. */
function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

function withoutSecrets({ stateDir }: Git, source: GitSource | undefined, text: string): string {
  const header = source?.authorization?.header;
  const secret = header?.slice(header.lastIndexOf(" ") + 1);
  const hidden = secret === undefined ? text : text.replaceAll(secret, "***");
  return hidden.replaceAll(stateDir, "…");
}

function gitMissing(cause: Error): Refusal {
  return new Refusal("git_missing", `git could not be started on the server: ${cause.message}`, {
    cause,
    next: "apt-get install -y git util-linux",
  });
}

function timedOut(command: string): Refusal {
  return new Refusal("clone_timed_out", `git ${command} was ended: it took longer than git.cloneMs`, {
    next: "Raise git.cloneMs in pistis.json, then post a message to try again.",
  });
}
