// infra/docker/engine.sh, which brings up Docker where nobody has: on a machine of its own as far as a daemon can tell,
// with namespaces for mounts, network and processes.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const run = promisify(execFile);
const SCRIPT = resolve(import.meta.dirname, "../../infra/docker/engine.sh");

/** $1 is a folder for what a daemon keeps, $2 the script. Process 1 here is no daemon, and two files say that it is. */
const MACHINE = `set -e
mount -t tmpfs tmpfs /run
for name in docker log; do mkdir -p "$1/$name"; done
mount --bind "$1/docker" /var/lib/docker
mount --bind "$1/log" /var/log
mkdir -p /run/docker/containerd
echo 1 > /run/docker.pid
echo 1 > /run/docker/containerd/containerd.pid
engine() { bash "$2" "$1" 2>&1 | sed "s/^docker: //"; }
is() { if bash "$1" started; then echo ours; else echo none; fi; }
version() { docker version --format '{{.Server.Os}}' || true; }
is "$2"
(engine start "$2" & engine start "$2" & wait)
engine start "$2"
is "$2"; version
kill -9 "$(cat /run/pistis-docker/dockerd.pid)"
engine start "$2"
version
engine stop "$2"; is "$2"
engine stop "$2"`;

// Only root starts a daemon; what an ordinary user is told is another test.
if (process.getuid?.() === 0) {
  describe("a Docker daemon of the tests' own", function () {
    this.timeout(120_000);

    it("is started once, also after one that died, and only that one is stopped", async () => {
      const folder = await mkdtemp(join(tmpdir(), "pistis-engine-"));
      try {
        const apart = ["--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"];
        const { stdout } = await run("unshare", [...apart, "bash", "-c", MACHINE, "bash", folder, SCRIPT]);
        const started = "starting dockerd in the background (log: /var/log/pistis-dockerd.log)";
        const stopped = "stopping the dockerd that was started here";
        const expected = ["none", started, "ours", "linux", started, "linux", stopped, "none"];
        expect(stdout.trim().split("\n")).to.deep.equal(expected);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  });
}

describe("a person who may not start a Docker daemon", () => {
  it("is told what to do", async () => {
    const nowhere = { ...process.env, DOCKER_HOST: "unix:///nowhere/docker.sock" };
    const failed = await run("bash", [SCRIPT, "start"], { env: nowhere }).then(
      () => "It started",
      (error: Error) => error.message,
    );
    expect(failed).to.contain("no Docker daemon answers at DOCKER_HOST=unix:///nowhere/docker.sock");
    expect(failed).to.contain("next: start it, or unset DOCKER_HOST");
  });
});
