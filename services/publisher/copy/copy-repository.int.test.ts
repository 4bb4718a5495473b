import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type PistisConfig, pistisConfig } from "#schemas/config/pistis-config.ts";
import { openGit } from "../git/mirror.ts";
import { gitSource } from "../git/source.ts";
import { type FolderSandbox, folderSandbox, lost } from "../testing/folder-link.ts";
import { commit, git, newRepository, put, tempFolder } from "../testing/repositories.ts";
import { type Copy, copyRepository } from "./copy-repository.ts";
import { openLocks } from "./locks.ts";
import { copyIn } from "./sandbox-repository.ts";

describe("copying a repository in", () => {
  let temp: ReturnType<typeof tempFolder>;
  let source: string;
  let workspace: string;
  let sandbox: FolderSandbox;
  const locks = openLocks();

  beforeEach(() => {
    temp = tempFolder();
    source = newRepository(join(temp.path, "source"));
    workspace = join(temp.path, "workspace");
    mkdirSync(workspace);
    sandbox = folderSandbox(workspace);
  });
  afterEach(() => temp.remove());

  async function copy(
    repository: { url: string; ref?: string },
    config: Partial<PistisConfig["git"]> = {},
  ): Promise<Copy> {
    const stateDir = join(temp.path, "state");
    mkdirSync(join(stateDir, "bundles"), { recursive: true });
    return copyRepository({
      git: await openGit(stateDir),
      config: { ...pistisConfig.parse({}).git, ...config },
      signal: new AbortController().signal,
      ...{ locks, repository, link: sandbox.link, progress: () => undefined },
    });
  }
  const repo = () => join(workspace, "repo");

  it("S53: checks out the default branch with its history, branches and tags", async () => {
    commit(source, { "a.txt": "one\n" });
    git(source, "tag", "v1");
    git(source, "branch", "other");
    const head = commit(source, { "a.txt": "two\n", "dir/b.txt": "b\n" });
    const copied = await copy({ url: source });
    expect(copied).to.include({ commit: head, branch: "main", shallow: false });
    expect(copied.bundleBytes).to.be.greaterThan(0);
    expect(git(repo(), "status", "--porcelain", "--branch")).to.equal("## main...origin/main");
    expect(git(repo(), "log", "--oneline").split("\n")).to.have.length(2);
    expect(git(repo(), "branch", "-r", "--format=%(refname:short)").split("\n")).to.include("origin/other");
    expect(git(repo(), "tag")).to.equal("v1");
    expect(readFileSync(join(repo(), "dir/b.txt"), "utf8")).to.equal("b\n");
    expect(readdirSync(workspace)).to.deep.equal(["repo"]);
  });

  it("C110: leaves no path of the server and no address that leads anywhere in the copy", async () => {
    commit(source, { "a.txt": "one\n" });
    await copy({ url: source });
    const config = readFileSync(join(repo(), ".git/config"), "utf8");
    expect(config).to.include("https://pistis.invalid/source");
    const everything = git(repo(), "config", "--list", "--local") + readdirSync(join(repo(), ".git")).join("\n");
    expect(everything).to.not.include(temp.path);
    expect(existsSync(join(repo(), ".git/FETCH_HEAD"))).to.equal(false);
    expect(sandbox.commands.join("\n")).to.not.include(temp.path);
  });

  it("copies only what is committed, and says so", async () => {
    commit(source, { "a.txt": "committed\n" });
    put(source, { "a.txt": "changed\n", "new.txt": "new\n" });
    const copied = await copy({ url: source });
    expect(readFileSync(join(repo(), "a.txt"), "utf8")).to.equal("committed\n");
    expect(existsSync(join(repo(), "new.txt"))).to.equal(false);
    expect(copied.note).to.include("Only what is committed");
  });

  it("copies a repository with no commit yet", async () => {
    const copied = await copy({ url: source });
    expect(copied).to.include({ commit: null, branch: "main", bundleBytes: 0 });
    expect(git(repo(), "status", "--porcelain", "--branch")).to.include("No commits yet on main");
  });

  it("checks out a branch, a tag and a commit by name", async () => {
    const first = commit(source, { "a.txt": "one\n" });
    git(source, "tag", "-a", "v1", "-m", "annotated");
    git(source, "checkout", "-q", "-b", "feature/x");
    const second = commit(source, { "a.txt": "two\n" });
    git(source, "checkout", "-q", "main");
    expect(await copy({ url: source, ref: "feature/x" })).to.include({ commit: second, branch: "feature/x" });
    expect(git(repo(), "rev-parse", "--abbrev-ref", "HEAD")).to.equal("feature/x");
    for (const ref of ["v1", first]) {
      git(workspace, "init", "-q");
      mkdirSync(join(temp.path, `w-${ref}`));
      sandbox = folderSandbox(join(temp.path, `w-${ref}`));
      expect(await copy({ url: source, ref })).to.include({ commit: first, branch: null });
      expect(git(join(temp.path, `w-${ref}`, "repo"), "rev-parse", "HEAD")).to.equal(first);
    }
  });

  it("C94: copies a shallow source as far as it goes", async () => {
    commit(source, { "a.txt": "one\n" });
    const head = commit(source, { "a.txt": "two\n" });
    const shallow = join(temp.path, "shallow");
    git(temp.path, "clone", "-q", "--depth", "1", `file://${source}`, shallow);
    expect(await copy({ url: shallow })).to.include({ commit: head, shallow: true });
    expect(git(repo(), "log", "--oneline").split("\n")).to.have.length(1);
    expect(git(repo(), "fsck", "--connectivity-only")).to.equal("");
  });

  // Only root can give a folder to somebody else.
  if (process.getuid?.() === 0) {
    it("C100: reads a source that belongs to another user", async () => {
      const head = commit(source, { "a.txt": "one\n" });
      execFileSync("chown", ["-R", "65534:65534", source]);
      expect(await copy({ url: source })).to.include({ commit: head });
    });
  }

  it("fetches only what is new the next time, and follows a branch that was rewritten", async () => {
    commit(source, { "a.txt": "one\n" });
    await copy({ url: source });
    git(source, "commit", "-q", "--amend", "-m", "rewritten", "--allow-empty");
    const head = git(source, "rev-parse", "HEAD");
    mkdirSync(join(temp.path, "second"));
    sandbox = folderSandbox(join(temp.path, "second"));
    expect(await copy({ url: source })).to.include({ commit: head });
    expect(readdirSync(join(temp.path, "state", "mirrors"))).to.have.length(1);
    expect(readdirSync(join(temp.path, "state", "bundles"))).to.deep.equal([]);
  });

  it("goes on in a mirror whose last fetch or packing was killed, and removes what it left", async () => {
    commit(source, { "a.txt": "one\n" });
    await copy({ url: source });
    const mirrors = join(temp.path, "state", "mirrors");
    const [name = ""] = readdirSync(mirrors);
    const head = commit(source, { "a.txt": "two\n" });
    const left = [
      ...["refs/heads/main.lock", "refs/tags/v1.lock", `refs/pistis/target/${head}.lock`, "packed-refs.lock"],
      ...["objects/pack/tmp_pack_x", "objects/pack/tmp_idx_x"],
    ];
    put(join(mirrors, name), Object.fromEntries(left.map((file) => [file, ""])));
    sandbox = folderSandbox(join(temp.path, "second"));
    mkdirSync(join(temp.path, "second"));
    expect(await copy({ url: source })).to.include({ commit: head });
    expect(left.filter((file) => existsSync(join(mirrors, name, file)))).to.deep.equal([]);
  });

  it("leaves work alone that is in a copy already", async () => {
    commit(source, { "a.txt": "one\n" });
    await copy({ url: source });
    put(repo(), { "a.txt": "my work\n" });
    expect((await copy({ url: source })).bundleBytes).to.equal(0);
    expect(readFileSync(join(repo(), "a.txt"), "utf8")).to.equal("my work\n");
  });

  it("names the commit that is in the sandbox, also when the source has gone on since", async () => {
    const copied = commit(source, { "a.txt": "one\n" });
    await copy({ url: source });
    const asked = commit(source, { "a.txt": "two\n" });
    commit(repo(), { "a.txt": "my work\n" });
    expect(await copy({ url: source })).to.include({ commit: copied, bundleBytes: 0 });
    for (const older of ["copied\n", "<script>\n", `${copied}0\n`, ""]) {
      put(repo(), { ".git/pistis-copy": older });
      expect(await copy({ url: source })).to.include({ commit: asked });
    }
  });

  it("says that a copy without a commit has none, also when the source has one by now", async () => {
    await copy({ url: source });
    commit(source, { "a.txt": "one\n" });
    expect(await copy({ url: source })).to.include({ commit: null, bundleBytes: 0 });
  });

  it("never overwrites a folder that it did not make", async () => {
    commit(source, { "a.txt": "one\n" });
    put(repo(), { mine: "mine\n" });
    await refused(copy({ url: source }), "repository_folder_taken");
    expect(readdirSync(repo())).to.deep.equal(["mine"]);
  });

  it("starts again after it was cut off at any step, with a whole copy as the result", async () => {
    const head = commit(source, { "a.txt": "one\n" });
    for (const step of [0, 1, 2]) {
      let calls = 0;
      sandbox.before.call = () => {
        if (calls++ === step) lost();
      };
      const outcome = await copy({ url: source }).then(
        () => "copied",
        (error: unknown) => (error instanceof Error ? error.name : ""),
      );
      expect(outcome).to.equal("SandboxLost");
      expect(existsSync(repo())).to.equal(false);
    }
    put(workspace, { ".pistis-copy/half": "made", ".pistis-copy.bundle": "half" });
    sandbox.before.call = () => undefined;
    expect(await copy({ url: source })).to.include({ commit: head });
    expect(readdirSync(workspace)).to.deep.equal(["repo"]);
  });

  it("gives up on a sandbox that does not take the bundle in time", async () => {
    const link = { ...sandbox.link, writeFile: () => new Promise<never>(() => undefined) };
    put(temp.path, { bundle: "all of it" });
    const bundle = { path: join(temp.path, "bundle"), bytes: 9 };
    const mirror = { path: "", target: { kind: "empty" as const, branch: "main" }, shallow: [], notes: [] };
    const copying = copyIn(link, { source: gitSource(source, []), mirror, bundle, timeoutMs: 20 });
    await refused(copying, "copy_failed");
  });

  it("C95: says that LFS files are pointers and that submodules are not there", async () => {
    commit(source, { ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", ".gitmodules": "[submodule]\n" });
    const { note } = await copy({ url: source });
    expect(note).to.include("LFS").and.include("Submodules");
  });

  it("runs no hook and no filter of the source or the server", async () => {
    commit(source, { "a.txt": "one\n", ".gitattributes": "*.txt filter=evil\n" });
    const evil = `touch ${join(temp.path, "ran")}`;
    git(source, "config", "filter.evil.smudge", evil);
    git(source, "config", "uploadpack.packObjectsHook", evil);
    git(source, "config", "core.fsmonitor", evil);
    await copy({ url: source });
    expect(existsSync(join(temp.path, "ran"))).to.equal(false);
  });

  it("names what is wrong with a source, with the next step", async () => {
    commit(source, { "a.txt": "one\n" });
    await refused(copy({ url: join(temp.path, "nowhere") }), "repository_not_found");
    await refused(copy({ url: source, ref: "nope" }), "ref_not_found");
    await refused(copy({ url: "ext::sh -c true" }), "repository_url_invalid");
    await refused(copy({ url: "--upload-pack=touch /tmp/x" }), "repository_url_invalid");
  });

  it("refuses what is larger than the limit", async () => {
    commit(source, { big: Array.from({ length: 60_000 }, () => Math.random()).join("") });
    await refused(copy({ url: source }, { bundleMiBMax: 0.1 }), "too_large");
    expect(readdirSync(join(temp.path, "state", "bundles"))).to.deep.equal([]);
  });
});

async function refused(work: Promise<unknown>, code: string): Promise<void> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).to.have.property("code", code);
  expect(error).to.have.property("next").that.is.a("string");
}
