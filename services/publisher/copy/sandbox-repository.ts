// The sandbox's side of a copy: plain commands over the link. What the sandbox answers is not believed beyond what it
// is good for: it can only spoil its own copy.
import { createReadStream } from "node:fs";
import type { ExecResult } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import type { Bundle } from "../git/bundle.ts";
import { type Mirror, targetName } from "../git/mirror.ts";
import type { GitSource } from "../git/source.ts";

const LOOK_MS_MAX = 30_000;
const ATTEMPTS_MAX = 16;
/** Holds the commit that was copied. */
const MARKER = "repo/.git/pistis-copy";
const NO_COMMIT = "none";

const Exit = { gitMissing: 41, taken: 42, copied: 43 } as const;

/** Of the whole attempt; `timeoutMs` is that of each command in the sandbox. */
export type Limits = Readonly<{ timeoutMs: number; signal: AbortSignal }>;

/** What is checked out by now may be another commit. undefined: an older publisher wrote none down, or the sandbox lies. */
export type InSandbox = Readonly<{ commitCopied: string | null | undefined }>;

/**
 * The earlier copy, if there is one. One that still runs, because its publisher died or lost the sandbox, is waited for;
 * what others left is removed. Throws Refusal `sandbox_git_missing` or `repository_folder_taken`.
 */
export async function earlierCopy(link: SandboxLink, limits: Limits): Promise<InSandbox | undefined> {
  const seen = await look(link, [], LOOK_MS_MAX);
  if (seen.copy !== undefined || seen.attempts.length === 0) return seen.copy;
  await Promise.all(seen.attempts.map((callId) => untilOver(link, callId, limits.signal)));
  return (await look(link, seen.attempts, limits.timeoutMs)).copy;
}

type Seen = Readonly<{ copy: InSandbox | undefined; attempts: readonly string[] }>;

/** `over`: attempts that run no more, whose files go. */
async function look(link: SandboxLink, over: readonly string[], timeoutMs: number): Promise<Seen> {
  const script = [
    ...endingWithout(over),
    `[ -f ${MARKER} ] && exit ${Exit.copied}`,
    `command -v git >/dev/null 2>&1 || exit ${Exit.gitMissing}`,
    ...MAKE_ROOM,
    "printf '%s\\n' .pistis-copy.*",
  ].join("\n");
  const result = await run(link, newId("call"), script, timeoutMs);
  const named = textOf(result).matchAll(/^\.pistis-copy\.(cal_[0-9a-z]{1,60})(?:\.bundle)?$/gm);
  const attempts = [...new Set([...named].map(([, callId]) => callId ?? ""))].slice(0, ATTEMPTS_MAX);
  return { copy: isExit(result, Exit.copied) ? copyOf(result) : undefined, attempts };
}

/** The last line is the marker of the copy. */
function copyOf(result: ExecResult): InSandbox {
  const said = textOf(result).trimEnd().split("\n").at(-1) ?? "";
  if (said === NO_COMMIT) return { commitCopied: null };
  return { commitCopied: /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(said) ? said : undefined };
}

/** Resolves when the call has ended or, not having begun, never will: pistisd bars a call that it is asked about first. */
async function untilOver(link: SandboxLink, callId: string, signal: AbortSignal): Promise<void> {
  try {
    await unlessAborted(link.attach({ callId, excerpt: { headBytes: 0, tailBytes: 0 }, from: 0 }), signal);
  } catch (cause) {
    if (!signal.aborted) throw cause;
    throw new Refusal("copy_failed", "An earlier copy into the sandbox did not end within git.cloneMs", {
      cause,
      next: "Post a message to try again.",
    });
  }
}

export type CopyIn = Readonly<{
  source: GitSource;
  mirror: Mirror;
  bundle: Bundle | undefined;
  timeoutMs: number;
}>;

/** Resolves when /workspace/repo is checked out. May be done again after it was cut off anywhere. */
export async function copyIn(link: SandboxLink, copy: CopyIn): Promise<InSandbox> {
  const callId = newId("call");
  if (copy.bundle !== undefined) await sendBundle(link, bundleOf(callId), copy.bundle, copy.timeoutMs);
  return copyOf(await run(link, callId, copyScript(callId, copy), copy.timeoutMs));
}

/** Made here and moved to its place whole, so that `repo` is complete or not there. Nobody else works in it. */
function folderOf(callId: string): string {
  return `/workspace/.pistis-copy.${callId}`;
}

function bundleOf(callId: string): string {
  return `${folderOf(callId)}.bundle`;
}

/** An empty folder gives way. */
const MAKE_ROOM = [`if [ -e repo ] || [ -L repo ]; then rmdir repo 2>/dev/null || exit ${Exit.taken}; fi`];

/**
 * However a script ends, nothing of these attempts stays. Where the copy is there by then, whoever made it, all is well:
 * nobody else's can take its place any more, so everything beside it goes too. The script then says what was copied.
 */
function endingWithout(attempts: readonly string[]): string[] {
  const own = attempts.flatMap((callId) => [folderOf(callId), bundleOf(callId)]).join(" ");
  return [
    "finish() {",
    "  status=$?",
    "  set +e",
    "  cd /workspace",
    `  rm -rf ${own}`,
    `  [ -f ${MARKER} ] || exit $status`,
    "  rm -rf .pistis-copy .pistis-copy.*",
    `  cat ${MARKER}`,
    `  exit ${Exit.copied}`,
    "}",
    "trap finish EXIT",
    "trap 'exit 143' TERM",
  ];
}

/** A sandbox that takes it ever so slowly would keep another session's copy from its turn. */
async function sendBundle(link: SandboxLink, to: string, { path, bytes }: Bundle, timeoutMs: number): Promise<void> {
  const request = { callId: newId("call"), path: to, size: bytes, mode: 0o600 };
  const late = new AbortController();
  const deadline = setTimeout(() => late.abort(tooSlow(bytes, timeoutMs)), timeoutMs);
  const content = createReadStream(path, { highWaterMark: 256 * 1024 });
  try {
    await unlessAborted(link.writeFile(request, content), late.signal);
  } finally {
    clearTimeout(deadline);
    // What was never sent was never read, and would keep the file's disk space after the file is gone.
    content.destroy();
  }
}

function tooSlow(bytes: number, timeoutMs: number): Refusal {
  return new Refusal("copy_failed", `The sandbox did not take the ${bytes} bytes within ${timeoutMs} ms`, {
    next: "Raise git.cloneMs in pistis.json, then post a message to try again.",
  });
}

/** Pure: the commands that make the repository out of the bundle. */
export function copyScript(callId: string, { source, mirror: { target, shallow }, bundle }: CopyIn): string {
  const branch = target.kind === "commit" ? undefined : target.branch;
  const folder = folderOf(callId);
  return [
    "set -eu",
    "export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0",
    ...endingWithout([callId]),
    `[ -f ${MARKER} ] && exit ${Exit.copied}`,
    `git init -q ${folder}`,
    `cd ${folder}`,
    `git symbolic-ref HEAD ${quoted(`refs/heads/${branch ?? "main"}`)}`,
    "git config user.name Pistis",
    "git config user.email agent@pistis.invalid",
    `git remote add origin ${quoted(source.origin)}`,
    ...(shallow.length === 0 ? [] : [`printf '%s\\n' ${shallow.join(" ")} > .git/shallow`]),
    ...(bundle === undefined || target.kind === "empty" ? [] : unpackScript(bundleOf(callId), target)),
    `git rev-parse -q --verify HEAD > .git/pistis-copy || echo ${NO_COMMIT} > .git/pistis-copy`,
    "cd /workspace",
    ...MAKE_ROOM,
    // With -T, so that it is not moved into a folder that appeared just now.
    `mv -T ${folder} repo`,
  ].join("\n");
}

/**
 * Packs are indexed with little memory (C93); refs are named as after a clone. Nothing is synced to the disk: the files
 * checked out would not be either, and a machine that loses power loses the sandbox's latest work in any case.
 */
function unpackScript(bundle: string, target: Exclude<Mirror["target"], { kind: "empty" }>): string[] {
  const frugal =
    "-c pack.threads=1 -c core.bigFileThreshold=16m -c core.deltaBaseCacheLimit=32m -c core.fsync=none -c gc.auto=0";
  const specs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*", "+refs/pistis/*:refs/pistis/*"];
  const checkout =
    target.kind === "commit"
      ? `git checkout -q --detach ${target.commit}`
      : [
          `git symbolic-ref refs/remotes/origin/HEAD ${quoted(`refs/remotes/origin/${target.branch}`)}`,
          `git checkout -q -B ${quoted(target.branch)} --track ${quoted(`origin/${target.branch}`)}`,
        ].join("\n");
  return [
    `git ${frugal} fetch -q --no-tags --update-shallow --no-write-fetch-head ${bundle} ${specs.map(quoted).join(" ")}`,
    `git update-ref -d ${targetName(target.commit)}`,
    checkout,
  ];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

async function run(link: SandboxLink, callId: string, command: string, timeoutMs: number): Promise<ExecResult> {
  const excerpt = { headBytes: 1_000, tailBytes: 3_000 };
  const result = await link.exec({ callId, command, timeoutMs, background: false, excerpt });
  if (isExit(result, 0) || isExit(result, Exit.copied)) return result;
  throw failureOf(result);
}

function isExit({ outcome }: ExecResult, code: number): boolean {
  return outcome.status === "exited" && outcome.exitCode === code;
}

function textOf({ head, tail }: ExecResult): string {
  return Buffer.concat([Buffer.from(head, "base64"), Buffer.from(tail, "base64")]).toString("utf8");
}

function failureOf(result: ExecResult): Refusal {
  const said = textOf(result).trim();
  if (isExit(result, Exit.gitMissing)) {
    return new Refusal("sandbox_git_missing", "There is no git in the sandbox", {
      next: "Use an image with git; for the local provider: apt-get install -y git on this machine.",
    });
  }
  if (isExit(result, Exit.taken)) {
    return new Refusal("repository_folder_taken", "/workspace/repo is there and is not a copy that Pistis made", {
      next: "Have it moved away, then post a message to try again. Pistis never overwrites files of the sandbox.",
    });
  }
  if (/No space left|Disk quota/.test(said)) {
    return new Refusal("sandbox_disk_full", `The repository does not fit into the sandbox: ${said.slice(-500)}`, {
      next: "Raise sandboxes.diskMiB in pistis.json.",
    });
  }
  return new Refusal(
    "copy_failed",
    `The sandbox could not unpack the repository (${result.outcome.status}): ${said.slice(-1_500)}`,
    {
      next: "Post a message to try again; look at sandboxes.memoryMiB and sandboxes.diskMiB for a large repository.",
    },
  );
}
