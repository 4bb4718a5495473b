// One copy, from the source to the sandbox. Each step may be cut off and is then done again from the start: the
// mirror keeps what it fetched, the sandbox's copy appears whole or not at all.
import { rm } from "node:fs/promises";
import type { PistisConfig } from "#schemas/config/pistis-config.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";
import { step } from "#shared/faults/step.ts";
import type { SandboxLink } from "#shared/sandbox-link/link.ts";
import { writeBundle } from "../git/bundle.ts";
import { type Mirror, updateMirror } from "../git/mirror.ts";
import type { Git } from "../git/run-git.ts";
import { type GitSource, gitSource } from "../git/source.ts";
import type { Locks } from "./locks.ts";
import type { Progress } from "./progress.ts";
import { copyIn, earlierCopy, type InSandbox } from "./sandbox-repository.ts";

export type Copying = Readonly<{
  git: Git;
  config: PistisConfig["git"];
  locks: Locks;
  repository: RepositorySource;
  link: SandboxLink;
  progress: Progress;
  signal: AbortSignal;
}>;

export type Copy = Readonly<{
  commit: string | null;
  branch: string | null;
  bundleBytes: number;
  shallow: boolean;
  durationMs: number;
  note?: string;
}>;

const READY_MS_MAX = 60_000;

/** Throws Refusal and Retryable with a code and the next step, SandboxLost when the sandbox is gone. */
export async function copyRepository(copying: Copying): Promise<Copy> {
  const { git, config, locks, repository, link, progress } = copying;
  const startedAt = performance.now();
  const signal = AbortSignal.any([copying.signal, AbortSignal.timeout(config.cloneMs)]);
  const source = gitSource(repository.url, config.credentials);
  const onProgress = (line: string) => progress("repository-fetch", line);
  progress("repository-fetch", "Fetching the repository");
  const fetching = { source, ref: repository.ref, signal, onProgress };
  const [mirror] = await Promise.all([
    locks.hold(source.location, () => updateMirror(git, fetching)),
    link.ready(READY_MS_MAX),
  ]);
  const limits = { timeoutMs: config.cloneMs, signal };
  const earlier = await earlierCopy(link, limits);
  const { commitCopied, bundleBytes } =
    earlier === undefined ? await bundleIn(copying, source, mirror, signal) : { ...earlier, bundleBytes: 0 };
  const { target, shallow, notes } = mirror;
  const commitAsked = target.kind === "empty" ? null : target.commit;
  return {
    // The source may have gone on since the copy was made.
    commit: commitCopied === undefined ? commitAsked : commitCopied,
    branch: target.kind === "commit" ? null : target.branch,
    bundleBytes,
    shallow: shallow.length > 0,
    durationMs: Math.round(performance.now() - startedAt),
    ...(notes.length === 0 ? {} : { note: notes.join(" ") }),
  };
}

type Copied = InSandbox & Readonly<{ bundleBytes: number }>;

async function bundleIn(copying: Copying, source: GitSource, mirror: Mirror, signal: AbortSignal): Promise<Copied> {
  const { git, config, link, progress } = copying;
  progress("repository-copy", "Packing the repository");
  const bundle = await writeBundle(git, mirror, config.bundleMiBMax, signal);
  try {
    step("publisher.copy.packed");
    progress("repository-unpack", "Copying the repository into the sandbox");
    const copied = await copyIn(link, { source, mirror, bundle, timeoutMs: config.cloneMs });
    return { ...copied, bundleBytes: bundle?.bytes ?? 0 };
  } finally {
    if (bundle !== undefined) await rm(bundle.path, { force: true });
  }
}
