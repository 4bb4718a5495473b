import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { type Folder, newFolder } from "../testing/command.ts";

describe("pistis doctor", function () {
  this.timeout(60_000);
  let folder: Folder;
  beforeEach(async () => {
    folder = await newFolder();
  });
  afterEach(() => folder.remove());

  it("tries everything and finds this machine fit", async () => {
    const { exitCode, out } = await folder.run(["doctor", "--json"]);
    const { checks } = JSON.parse(out);
    const names = ["Node", "bubblewrap", "util-linux", "git", "nats-server", "PostgreSQL", "pistisd", "pistis.json"];
    expect(checks.map(({ name }: { name: string }) => name)).to.include.members([
      ...names,
      "state folder",
      "disk space",
    ]);
    expect(checks.filter(({ status }: { status: string }) => status === "missing")).to.deep.equal([]);
    expect(exitCode).to.equal(0);
  });

  it("says what is missing and how to get it, with an exit code", async () => {
    await writeFile(join(folder.path, "pistis.json"), '{ "defaultModel": "none" }');
    const { exitCode, out } = await folder.run(["doctor"], { DATABASE_URL: "postgres://x:secret@127.0.0.1:1/x" });
    expect(exitCode).to.equal(1);
    expect(out).to.match(/^missing +PostgreSQL +DATABASE_URL does not answer.*\n +next: /m);
    expect(out)
      .to.match(/^missing +pistis.json /m)
      .and.to.contain('defaultModel: found "none"');
    expect(out).to.not.contain("secret");
  });

  it("speaks of the Docker engine and what it can give to sandboxes", async () => {
    await writeFile(join(folder.path, "pistis.json"), '{ "sandboxes": { "image": "no-such-image" } }');
    const { checks } = JSON.parse((await folder.run(["doctor", "--json"])).out);
    const docker = checks.filter(({ name }: { name: string }) => name.startsWith("Docker"));
    const about = ["", " image", " limits", " disks", " seccomp", " users", " networks"];
    expect(docker.map(({ name }: { name: string }) => name)).to.deep.equal(about.map((what) => `Docker${what}`));
    for (const { status, next } of docker) if (status !== "ok") expect(next).to.match(/^[A-Za-z]/);
    expect(docker[1]).to.include({
      status: "warn",
      next: "docker pull no-such-image, or build it, on the Docker host",
    });
  });

  it("says what a local sandbox isolates on this machine, and what it does not", async () => {
    const { out } = await folder.run(["doctor"]);
    expect(out).to.match(/isolates here:\n {2}- Own user, process, mount, network/);
    expect(out).to.match(/and does not:\n {2}- It shares this machine's kernel/);
  });

  it("works from any folder and through a link, whatever Node is on the PATH", async () => {
    const { exitCode, out } = await folder.run(["--version"], { PATH: "/usr/bin:/bin" });
    expect(out).to.match(/^\d+\.\d+\.\d+\n$/);
    expect(exitCode).to.equal(0);
  });

  it("answers a wrong command line with the exit code 2 and a way on", async () => {
    const { exitCode, err } = await folder.run(["sesions"]);
    expect(exitCode).to.equal(2);
    expect(err).to.contain("Did you mean sessions?").and.to.contain("pistis --help");
  });
});
