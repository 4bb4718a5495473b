// The sandbox's side of a copy: plain commands over the link. What the sandbox answers is not believed beyond what it
// is good for: it can only spoil its own copy.
import { createReadStream } from "node:fs";
import type { ExecResult } from "#schemas/wire/message.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import { newId } from "#shared/ids/ids.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import type { Bundle } from "../git/bundle.ts";
import type { Mirror } from "../git/mirror.ts";
import type { GitSource } from "../git/source.ts";

const BUNDLE = "/workspace/.pistis-copy.bundle";
/** Made here and moved to its place whole, so that `repo` is complete or not there. */
const MADE_IN = "/workspace/.pistis-copy";
const LOOK_MS_MAX = 30_000;

const Exit = { gitMissing: 41, taken: 42, copied: 43 } as const;

/** Whether an earlier copy is there. Throws Refusal `sandbox_git_missing` or `repository_folder_taken`. */
export async function isCopied(link: SandboxLink): Promise<boolean> {
  const script = [
    `command -v git >/dev/null 2>&1 || exit ${Exit.gitMissing}`,
    `[ -f repo/.git/pistis-copy ] && exit ${Exit.copied}`,
    `if [ -e repo ] || [ -L repo ]; then rmdir repo 2>/dev/null || exit ${Exit.taken}; fi`,
  ].join("\n");
  const result = await run(link, script, LOOK_MS_MAX);
  return result.outcome.status === "exited" && result.outcome.exitCode === Exit.copied;
}

export type CopyIn = Readonly<{
  source: GitSource;
  mirror: Mirror;
  bundle: Bundle | undefined;
  timeoutMs: number;
}>;

/** Resolves when /workspace/repo is checked out. May be done again after it was cut off anywhere. */
export async function copyIn(link: SandboxLink, copy: CopyIn): Promise<void> {
  if (copy.bundle !== undefined) await sendBundle(link, copy.bundle, copy.timeoutMs);
  await run(link, copyScript(copy), copy.timeoutMs);
}

/** A sandbox that takes it ever so slowly would keep another session's copy from its turn. */
async function sendBundle(link: SandboxLink, { path, bytes }: Bundle, timeoutMs: number): Promise<void> {
  const request = { callId: newId("call"), path: BUNDLE, size: bytes, mode: 0o600 };
  const late = new AbortController();
  const deadline = setTimeout(() => late.abort(tooSlow(bytes, timeoutMs)), timeoutMs);
  try {
    const writing = link.writeFile(request, createReadStream(path, { highWaterMark: 256 * 1024 }));
    await unlessAborted(writing, late.signal);
  } finally {
    clearTimeout(deadline);
  }
}

function tooSlow(bytes: number, timeoutMs: number): Refusal {
  return new Refusal("copy_failed", `The sandbox did not take the ${bytes} bytes within ${timeoutMs} ms`, {
    next: "Raise git.cloneMs in pistis.json, then post a message to try again.",
  });
}

/** Pure: the commands that make the repository out of the bundle. */
export function copyScript({ source, mirror: { target, shallow }, bundle }: CopyIn): string {
  const branch = target.kind === "commit" ? undefined : target.branch;
  return [
    "set -eu",
    "export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0",
    `[ -f repo/.git/pistis-copy ] && exit ${Exit.copied}`,
    `rm -rf ${MADE_IN}`,
    `git init -q ${MADE_IN}`,
    `cd ${MADE_IN}`,
    `git symbolic-ref HEAD ${quoted(`refs/heads/${branch ?? "main"}`)}`,
    "git config user.name Pistis",
    "git config user.email agent@pistis.invalid",
    `git remote add origin ${quoted(source.origin)}`,
    ...(shallow.length === 0 ? [] : [`printf '%s\\n' ${shallow.join(" ")} > .git/shallow`]),
    ...(bundle === undefined || target.kind === "empty" ? [] : unpackScript(target)),
    `rm -f ${BUNDLE}`,
    "echo copied > .git/pistis-copy",
    "cd /workspace",
    `if [ -e repo ] || [ -L repo ]; then rmdir repo 2>/dev/null || exit ${Exit.taken}; fi`,
    `mv ${MADE_IN} repo`,
  ].join("\n");
}

/**
 * Packs are indexed with little memory (C93); refs are named as after a clone. Nothing is synced to the disk: the files
 * checked out would not be either, and a machine that loses power loses the sandbox's latest work in any case.
 */
function unpackScript(target: Exclude<Mirror["target"], { kind: "empty" }>): string[] {
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
    `git ${frugal} fetch -q --no-tags --update-shallow --no-write-fetch-head ${BUNDLE} ${specs.map(quoted).join(" ")}`,
    `git update-ref -d refs/pistis/target/${target.commit}`,
    checkout,
  ];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

async function run(link: SandboxLink, command: string, timeoutMs: number): Promise<ExecResult> {
  const excerpt = { headBytes: 1_000, tailBytes: 3_000 };
  const result = await link.exec({ callId: newId("call"), command, timeoutMs, background: false, excerpt });
  const { outcome } = result;
  if (outcome.status === "exited" && (outcome.exitCode === 0 || outcome.exitCode === Exit.copied)) return result;
  throw failureOf(result);
}

function failureOf({ outcome, head, tail }: ExecResult): Refusal {
  const said = Buffer.concat([Buffer.from(head, "base64"), Buffer.from(tail, "base64")])
    .toString("utf8")
    .trim();
  if (outcome.status === "exited" && outcome.exitCode === Exit.gitMissing) {
    return new Refusal("sandbox_git_missing", "There is no git in the sandbox", {
      next: "Use an image with git; for the local provider: apt-get install -y git on this machine.",
    });
  }
  if (outcome.status === "exited" && outcome.exitCode === Exit.taken) {
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
    `The sandbox could not unpack the repository (${outcome.status}): ${said.slice(-1_500)}`,
    {
      next: "Post a message to try again; look at sandboxes.memoryMiB and sandboxes.diskMiB for a large repository.",
    },
  );
}
