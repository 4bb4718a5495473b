// infra/docker/engine.sh, which brings up Docker where nobody has: on a machine of its own as far as a daemon can tell,
// with namespaces for mounts, network and processes.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
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

const asNobody = ["--reuid", "65533", "--regid", "65533", "--clear-groups", "--"];

function failureOf(program: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<string> {
  return run(program, args, { env: { ...process.env, ...environment } }).then(
    () => "It started",
    (error: Error) => error.message,
  );
}

// Only root starts a daemon, and only root can act as somebody else.
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

    it("is asked of somebody else by a user who may neither start nor use it", async () => {
      // As text: the checkout may lie in a folder that only root opens.
      const script = await readFile(SCRIPT, "utf8");
      const failed = await failureOf("setpriv", [...asNobody, "bash", "-c", script, SCRIPT, "start"], {
        DOCKER_HOST: "",
      });
      expect(failed).to.match(/docker: no Docker daemon answers to \S+\n {2}next: .*sudo usermod -aG docker/);
    });
  });
}

describe("a Docker daemon at DOCKER_HOST", () => {
  it("is never started here", async () => {
    const failed = await failureOf("bash", [SCRIPT, "start"], { DOCKER_HOST: "unix:///nowhere/docker.sock" });
    expect(failed).to.contain("no Docker daemon answers at DOCKER_HOST=unix:///nowhere/docker.sock");
    expect(failed).to.contain("next: start it, or unset DOCKER_HOST");
  });
});
