import { closeSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { openWorkspace, type Workspace } from "./workspace.ts";

describe("paths in the workspace", () => {
  let folder: string;
  let outside: string;
  let workspace: Workspace;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pistis-"));
    outside = join(folder, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "secret"), "s");
    workspace = openWorkspace(join(folder, "workspace"));
    writeFileSync(join(workspace.root, "file"), "f");
    mkdirSync(join(workspace.root, "inner"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const open = (path: string) => {
    const file = workspace.openFile(path);
    closeSync(file.descriptor);
    return file.path;
  };
  const openParent = (path: string) => {
    const parent = workspace.openParent(path);
    parent.close();
    return `${parent.path}/${parent.name}`;
  };
  const inside = (path: string) => join(workspace.root, path);

  it("are relative to it or absolute", () => {
    expect(open("file")).to.equal(inside("file"));
    expect(open(inside("file"))).to.equal(inside("file"));
    expect(open("inner/../file")).to.equal(inside("file"));
    expect(workspace.directoryPath(".")).to.equal(workspace.root);
  });

  it("may be links that stay inside", () => {
    symlinkSync("file", inside("link"));
    symlinkSync(inside("inner"), inside("folder-link"));
    expect(open("link")).to.equal(inside("file"));
    expect(workspace.directoryPath("folder-link")).to.equal(inside("inner"));
  });

  for (const path of ["../outside/secret", "/etc/passwd", "inner/../../outside/secret", "../workspace2/x", "/"]) {
    it(`are refused when they lead out: ${path}`, () => {
      for (const use of [open, openParent, workspace.directoryPath]) {
        expect(() => use(path))
          .to.throw()
          .with.property("code", "outside_workspace");
      }
    });
  }

  it("are refused when a link leads out, at the end or on the way", () => {
    symlinkSync(join(outside, "secret"), inside("link"));
    symlinkSync("../outside", inside("way-out"));
    symlinkSync("/proc/self/root", inside("root"));
    for (const path of ["link", "way-out/secret", "root/etc/hostname"]) {
      expect(() => open(path))
        .to.throw()
        .with.property("code", "outside_workspace");
    }
    expect(() => workspace.directoryPath("way-out"))
      .to.throw()
      .with.property("code", "outside_workspace");
    expect(() => openParent("way-out/new/file"))
      .to.throw()
      .with.property("code", "outside_workspace");
    expect(readdirSync(outside)).to.deep.equal(["secret"]);
  });

  it("make the folders that are missing, inside only", () => {
    expect(openParent("new/deep/file")).to.equal(inside("new/deep/file"));
    expect(() => openParent("file/below"))
      .to.throw()
      .with.property("code", "not_found");
  });

  it("say whether something is missing or no file", () => {
    symlinkSync("loop", inside("loop"));
    expect(() => open("nothing"))
      .to.throw()
      .with.property("code", "not_found");
    expect(() => open("loop"))
      .to.throw()
      .with.property("code", "not_found");
    expect(() => open("inner"))
      .to.throw()
      .with.property("code", "not_a_file");
    expect(() => workspace.directoryPath("file"))
      .to.throw()
      .with.property("code", "not_found");
    expect(() => open("x".repeat(300)))
      .to.throw()
      .with.property("code", "bad_request");
  });
});
