// The whole way from a message to commands in a Docker container, on a base with glibc and on one without.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";
import { readInstallId } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { LABELS } from "#shared/docker/names.ts";
import { type FollowedSession, openTestInstall, openTestSession, type TestInstall } from "./testing/running-install.ts";

const run = promisify(execFile);
const BASES = ["debian:bookworm-slim", "pistis-base/musl"];

describe("a session in Docker", function () {
  this.timeout(180_000);
  for (const image of BASES) {
    describe(`on ${image}`, () => {
      let install: TestInstall;
      let session: FollowedSession;
      before(async () => {
        const limits = { memoryMiB: 512, processesMax: 64 };
        install = await openTestInstall({ sandboxes: { provider: "docker", image, ...limits } });
      });
      after(async () => {
        const installId = await readInstallId(stateFolder(install.statePath, {}, "/"));
        await session.close();
        await install.close();
        await removeInstalls(dockerCli(), [installId ?? ""]);
      });

      it("S30, S41: runs commands as an ordinary user, holds no join token, restarts with its disk, leaves nothing", async () => {
        const look =
          "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c TOKEN= || true; ls /var/lib/pistisd";
        session = await openTestSession(install.server, {
          message: { text: `$ id -un; echo kept > /workspace/kept\n$ ${look}` },
        });
        await session.event("TurnEnded");
        const texts = () => session.seen("ToolDone").map(({ text }) => text);
        expect(texts()[0]).to.contain("pistis");
        expect(texts()[1]).to.match(/^0\n/).and.to.not.contain("join-token");
        const own = ["ps", "-aq", "--filter", `label=${LABELS.session}=${session.id}`];
        const { stdout: container } = await run("docker", own);
        await run("docker", ["kill", container.trim()]);
        await session.event("SandboxStopped");
        await session.post("$ cat /workspace/kept");
        await session.event("TurnEnded", 2);
        expect(texts().at(-1)).to.contain("kept");
        expect(session.seen("SandboxRestarted")).to.have.lengthOf(1);
        await session.end();
        await session.event("SandboxDestroyed");
        expect((await run("docker", own)).stdout).to.equal("");
      });
    });
  }
});
