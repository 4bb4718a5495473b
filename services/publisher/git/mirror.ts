// One bare repository per source, under the server's state folder. It is only ever fetched into: what is there already
// is not fetched again, for whatever session.
import { access, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Refusal } from "#shared/errors/errors.ts";
import { sha256 } from "#shared/ids/ids.ts";
import { type Git, runGit } from "./run-git.ts";
import type { GitSource } from "./source.ts";

/** What a session is to find checked out. */
export type Target =
  | Readonly<{ kind: "empty"; branch: string }>
  | Readonly<{ kind: "branch"; branch: string; commit: string }>
  | Readonly<{ kind: "commit"; commit: string }>;

export type Mirror = Readonly<{ path: string; target: Target; shallow: readonly string[]; notes: readonly string[] }>;

export type Fetching = Readonly<{
  source: GitSource;
  ref: string | undefined;
  signal: AbortSignal;
  onProgress: (line: string) => void;
}>;

type Heads = Readonly<{ head: string | undefined; refs: ReadonlyMap<string, string> }>;

const WANTED = "refs/pistis/wanted";
const TARGET = "refs/pistis/target";

/** Answers the folder for mirrors and writes git's only configuration. */
export async function openGit(stateDir: string): Promise<Git> {
  await mkdir(join(stateDir, "mirrors"), { recursive: true, mode: 0o700 });
  const configFile = join(stateDir, "gitconfig");
  // Local sources may belong to another user; no program is run from a source's own configuration (C100).
  await writeFile(configFile, "[safe]\n\tdirectory = *\n", { mode: 0o600 });
  return { configFile, stateDir };
}

/** Brings the mirror up to date. The caller holds the lock of this source. */
export async function updateMirror(git: Git, fetching: Fetching): Promise<Mirror> {
  const { source, ref, signal } = fetching;
  const path = join(git.stateDir, "mirrors", `${sha256(source.location)}.git`);
  const heads = await remoteHeads(git, fetching);
  await runGit(git, { args: ["init", "--quiet", "--bare", "--initial-branch=main", path], signal });
  await removeStaleFiles(path);
  const call = { repository: path, source, signal, onProgress: fetching.onProgress };
  await fetchHeads(git, call, heads);
  const target = await resolveTarget(git, call, heads, ref);
  await nameTarget(git, call, target);
  const shallow = await shallowCommits(path);
  return { path, target, shallow, notes: await notesOn(git, fetching, path, target) };
}

async function remoteHeads(git: Git, { source, signal }: Fetching): Promise<Heads> {
  const text = await runGit(git, { args: ["ls-remote", "--symref", "--", source.location], source, signal });
  let head: string | undefined;
  const refs = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [left = "", name = ""] = line.split("\t");
    if (left.startsWith("ref: ") && name === "HEAD") head = left.slice("ref: ".length);
    else if (/^[0-9a-f]{40,64}$/.test(left)) refs.set(name, left);
  }
  return { head, refs };
}

type Call = Readonly<{
  repository: string;
  source: GitSource;
  signal: AbortSignal;
  onProgress: (line: string) => void;
}>;

/** Branches and tags; hidden refs of a code host can be a multiple of them. A source that has nothing new is not asked. */
async function fetchHeads(git: Git, call: Call, { refs }: Heads): Promise<void> {
  const isWanted = (name: string) => /^refs\/(heads|tags)\//.test(name) && !name.endsWith("^{}");
  const wanted = [...refs].filter(([name]) => isWanted(name)).map(([name, id]) => `${id} ${name}`);
  const known = await runGit(git, {
    ...call,
    args: ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"],
  });
  if (wanted.sort().join("\n") === known.trim().split("\n").sort().join("\n")) return;
  const specs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
  await fetchRefs(git, call, ["--prune", "--", call.source.location, ...specs]);
}

async function fetchRefs(git: Git, call: Call, rest: readonly string[]): Promise<void> {
  const flags = ["--progress", "--no-tags", "--update-shallow", "--no-write-fetch-head", "--recurse-submodules=no"];
  await runGit(git, { ...call, args: ["fetch", ...flags, ...rest] });
}

async function resolveTarget(git: Git, call: Call, heads: Heads, ref: string | undefined): Promise<Target> {
  const { refs } = heads;
  if (ref === undefined) return defaultTarget(git, call, heads);
  const branch = refs.get(`refs/heads/${ref}`) ?? (ref.startsWith("refs/heads/") ? refs.get(ref) : undefined);
  if (branch !== undefined) return { kind: "branch", branch: ref.replace(/^refs\/heads\//, ""), commit: branch };
  const tag = refs.get(`refs/tags/${ref}^{}`) ?? refs.get(`refs/tags/${ref}`) ?? refs.get(`${ref}^{}`);
  if (tag !== undefined) return { kind: "commit", commit: tag };
  const wanted = refs.get(ref) ?? (/^[0-9a-f]{40,64}$/.test(ref) ? ref : undefined);
  if (wanted === undefined) throw refNotFound(ref, refs);
  if (!(await hasCommit(git, call, wanted))) {
    const what = refs.has(ref) ? ref : wanted;
    await fetchRefs(git, call, ["--", call.source.location, `+${what}:${WANTED}/${wanted}`]);
  }
  return { kind: "commit", commit: wanted };
}

async function defaultTarget(git: Git, call: Call, { head, refs }: Heads): Promise<Target> {
  const commit = refs.get("HEAD");
  if (head?.startsWith("refs/heads/") === true && commit !== undefined) {
    return { kind: "branch", branch: head.slice("refs/heads/".length), commit };
  }
  if (commit !== undefined) {
    if (!(await hasCommit(git, call, commit))) {
      await fetchRefs(git, call, ["--", call.source.location, `+HEAD:${WANTED}/${commit}`]);
    }
    return { kind: "commit", commit };
  }
  const [first] = [...refs.keys()].filter((name) => name.startsWith("refs/heads/")).sort();
  if (first === undefined) return { kind: "empty", branch: "main" };
  return { kind: "branch", branch: first.slice("refs/heads/".length), commit: refs.get(first) ?? "" };
}

async function hasCommit(git: Git, { repository, signal }: Call, commit: string): Promise<boolean> {
  return runGit(git, { repository, signal, args: ["cat-file", "-e", `${commit}^{commit}`] }).then(
    () => true,
    (error: unknown) => {
      if (signal.aborted) throw error;
      return false;
    },
  );
}

/** A bundle can hold only what has a name. Given here, because a name is written with a lock of git's own. */
async function nameTarget(git: Git, { repository, signal }: Call, target: Target): Promise<void> {
  if (target.kind === "empty") return;
  await runGit(git, { repository, signal, args: ["update-ref", targetName(target.commit), target.commit] });
}

/** The name of a target's commit in the mirror and in its bundles. */
export function targetName(commit: string): string {
  return `${TARGET}/${commit}`;
}

/** Commits whose parents the source itself lacks (C94). */
async function shallowCommits(path: string): Promise<string[]> {
  const file = join(path, "shallow");
  const has = await access(file).then(
    () => true,
    () => false,
  );
  return has ? (await readFile(file, "utf8")).split("\n").filter((line) => line !== "") : [];
}

/**
 * Only one process writes to a mirror, and it ends with this one: a lock that is there now is nobody's, and neither is
 * a pack that was not finished. git removes none of them, and is stopped by a lock for ever.
 */
async function removeStaleFiles(path: string): Promise<void> {
  const stale = [
    ...(await filesIn(path, { recursive: false })).filter(isLock),
    ...(await filesIn(join(path, "refs"), { recursive: true })).filter(isLock),
    ...(await filesIn(join(path, "objects", "pack"), { recursive: false })).filter(isUnfinished),
  ];
  for (const file of stale) await rm(file, { force: true });
}

async function filesIn(folder: string, options: { recursive: boolean }): Promise<string[]> {
  return (await readdir(folder, options)).map((name) => join(folder, name));
}

/** No branch or tag can be called that. */
function isLock(file: string): boolean {
  return file.endsWith(".lock");
}

function isUnfinished(file: string): boolean {
  return basename(file).startsWith("tmp_");
}

/** What a person would wonder about in the copy. */
async function notesOn(git: Git, { source, signal }: Fetching, path: string, target: Target): Promise<string[]> {
  if (target.kind === "empty") return ["The repository has no commit yet."];
  const show = (file: string) =>
    runGit(git, { repository: path, signal, args: ["cat-file", "-p", `${target.commit}:${file}`] }).catch(
      (error: unknown) => {
        if (signal.aborted) throw error;
        return "";
      },
    );
  const [attributes, modules] = await Promise.all([show(".gitattributes"), show(".gitmodules")]);
  return [
    ...(source.protocol === "file" ? ["Only what is committed was copied, not changes of the working folder."] : []),
    ...(/filter=lfs/.test(attributes) ? ["Files in Git LFS are pointers: their content was not fetched."] : []),
    ...(modules === "" ? [] : ["Submodules were not fetched."]),
  ];
}

function refNotFound(ref: string, refs: ReadonlyMap<string, string>): Refusal {
  const branches = [...refs.keys()].filter((name) => name.startsWith("refs/heads/")).slice(0, 10);
  const some = branches.map((name) => name.slice("refs/heads/".length)).join(", ") || "none";
  return new Refusal("ref_not_found", `The repository has no branch, tag or commit ${ref}`, {
    next: `Choose another. Some of its branches: ${some}.`,
  });
}
