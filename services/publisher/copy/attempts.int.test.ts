// Attempts that fail, go on without their publisher, or work at the same time.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import { CallNotRun, type SandboxLink } from "#shared/sandbox-link/link.ts";
import { openGit } from "../git/mirror.ts";
import { type FolderSandbox, folderSandbox, lost } from "../testing/folder-link.ts";
import { type Gate, openGate } from "../testing/gate.ts";
import { commit, git, newRepository, put, tempFolder } from "../testing/repositories.ts";
import { type Copy, copyRepository } from "./copy-repository.ts";
import { openLocks } from "./locks.ts";

describe("attempts to copy a repository in", () => {
  let temp: ReturnType<typeof tempFolder>;
  let source: string;
  let workspace: string;
  let sandbox: FolderSandbox;
  let gate: Gate;
  const locks = openLocks();

  beforeEach(async () => {
    temp = tempFolder();
    gate = await openGate(temp.path);
    source = newRepository(join(temp.path, "source"));
    workspace = join(temp.path, "workspace");
    mkdirSync(workspace);
    mkdirSync(join(temp.path, "state", "bundles"), { recursive: true });
    sandbox = folderSandbox(workspace);
  });
  afterEach(async () => {
    await gate.close();
    temp.remove();
  });

  async function copy(signal = new AbortController().signal): Promise<Copy> {
    return copyRepository({
      git: await openGit(join(temp.path, "state")),
      config: pistisConfig.parse({}).git,
      repository: { url: source },
      ...{ signal, locks, link: sandbox.link, progress: () => undefined },
    });
  }

  function whole(): void {
    const repo = join(workspace, "repo");
    expect(git(repo, "fsck")).to.equal("");
    expect(git(repo, "status", "--porcelain", "--branch")).to.equal("## main...origin/main");
    expect(readdirSync(workspace)).to.deep.equal(["repo"]);
  }

  it("holds nothing of a bundle that never left for the sandbox", async () => {
    commit(source, { "a.txt": "one\n" });
    const { link } = sandbox;
    const contents: Parameters<typeof link.writeFile>[1][] = [];
    const writeFile: typeof link.writeFile = async (_request, content) => {
      contents.push(content);
      throw new CallNotRun("The sandbox was away");
    };
    sandbox = { ...sandbox, link: { ...link, writeFile } };
    expect(await failed(copy())).to.be.instanceOf(CallNotRun);
    expect(contents).to.have.length(1);
    expect(contents[0]).to.have.property("destroyed", true);
  });

  it("waits for a copy that goes on in the sandbox without its publisher, and takes it", async () => {
    const head = commit(source, { "a.txt": "one\n" });
    const { link } = sandbox;
    const exec: typeof link.exec = async (request) => {
      if (!isCopyScript(request)) return link.exec(request);
      void link.exec(heldBefore("git checkout", request, gate));
      return lost();
    };
    const attach: typeof link.attach = (request) => {
      void gate.open();
      return link.attach(request);
    };
    sandbox = { ...sandbox, link: { ...link, exec, attach } };
    expect(await failed(copy())).to.have.property("name", "SandboxLost");
    await gate.reached();
    expect(await copy()).to.include({ commit: head, bundleBytes: 0 });
    whole();
  });

  it("leaves nothing of an attempt that failed in the sandbox", async () => {
    commit(source, { "a.txt": "one\n" });
    const { link } = sandbox;
    const exec: SandboxLink["exec"] = (request) =>
      link.exec({ ...request, command: request.command.replace("git checkout", "false") });
    sandbox = { ...sandbox, link: { ...link, exec } };
    expect(await failed(copy()))
      .to.include({ code: "copy_failed" })
      .with.property("next");
    expect(readdirSync(workspace)).to.deep.equal([]);
  });

  it("does not wait for a copy that goes on when its own time is over", async () => {
    commit(source, { "a.txt": "one\n" });
    put(workspace, { ".pistis-copy.cal_1.bundle": "" });
    const over = new AbortController();
    const attach: SandboxLink["attach"] = () => {
      over.abort();
      return new Promise(() => undefined);
    };
    sandbox = { ...sandbox, link: { ...sandbox.link, attach } };
    expect(await failed(copy(over.signal)))
      .to.include({ code: "copy_failed" })
      .with.property("next");
  });

  for (const place of ["git init", "git checkout", "mv -T"]) {
    it(`has one whole copy when two work at once, the first of them slow at ${place}`, async () => {
      const head = commit(source, { "a.txt": "one\n" });
      const { link } = sandbox;
      const both = Promise.withResolvers<void>();
      const counts = { looks: 0, scripts: 0 };
      const exec: typeof link.exec = async (request) => {
        if (isCopyScript(request)) {
          counts.scripts += 1;
          if (counts.scripts === 1) return link.exec(heldBefore(place, request, gate));
          await gate.reached();
          return link.exec(request);
        }
        const result = await link.exec(request);
        counts.looks += 1;
        if (counts.looks === 2) both.resolve();
        await both.promise;
        return result;
      };
      sandbox = { ...sandbox, link: { ...link, exec } };
      const copies = [copy(), copy()];
      await Promise.race(copies);
      await gate.open();
      for (const copied of await Promise.all(copies)) expect(copied).to.include({ commit: head });
      whole();
    });
  }
});

type Exec = Parameters<SandboxLink["exec"]>[0];

function isCopyScript({ command }: Exec): boolean {
  return command.includes("git init");
}

function heldBefore(line: string, request: Exec, { hold }: Gate): Exec {
  return { ...request, command: request.command.replace(`\n${line}`, `\n${hold}\n${line}`) };
}

async function failed(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
}
