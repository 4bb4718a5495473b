// The way out of a container that has no interface but its own loopback, to an allowed host and to no other.
import { expect } from "chai";
import { readInstallId } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { startNameServer } from "#services/egress/testing/name-server.ts";
import { startHttp } from "#services/egress/testing/stand-ins.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { Resources } from "#shared/service/resources.ts";
import { openTestInstall, openTestSession } from "./testing/running-install.ts";

describe("the way out of a Docker sandbox", function () {
  this.timeout(180_000);
  const resources = new Resources();
  after(() => resources.close());

  it("S60, C119: leads to an allowed host by the variables that tools read, and nowhere else", async () => {
    const names = await startNameServer({ "allowed.example": ["127.0.0.1"], "blocked.example": ["127.0.0.1"] });
    resources.add("names", names, ({ close }) => close());
    const { port } = await startHttp(resources);
    const image = { provider: "docker", image: "debian:bookworm-slim", memoryMiB: 512, processesMax: 64 } as const;
    const install = await openTestInstall({
      sandboxes: { ...image, allow: [`allowed.example:${port}`] },
      egress: { nameServers: [names.address], testAddresses: ["127.0.0.1/32"] },
    });
    resources.add("install", install, async () => {
      const installId = await readInstallId(stateFolder(install.statePath, {}, "/"));
      await install.close();
      await removeInstalls(dockerCli(), [installId ?? ""]);
    });
    const ask = (host: string) =>
      `exec 3<>/dev/tcp/127.0.0.1/\${http_proxy##*:}; printf 'GET http://${host}/ HTTP/1.1\\r\\nhost: ${host}\\r\\nconnection: close\\r\\n\\r\\n' >&3; cat <&3`;
    const text = `$ ${ask(`allowed.example:${port}`)}\n$ ${ask("blocked.example")}\n$ ls /sys/class/net`;
    const session = await openTestSession(install.server, { message: { text } });
    resources.add("session", session, ({ close }) => close());
    const { reason, failure } = await session.event("TurnEnded");
    expect(reason, JSON.stringify(failure)).to.equal("completed");
    const [allowed, blocked, interfaces] = session.seen("ToolDone").map((done) => done.text);
    expect(allowed).to.contain("200 OK").and.to.contain(`GET / allowed.example:${port}`);
    expect(blocked).to.contain("403").and.to.contain("host_not_allowed");
    expect(interfaces?.split("\n")[0]).to.equal("lo");
    await session.end();
    await session.event("SandboxDestroyed");
  });
});
