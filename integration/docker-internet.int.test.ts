// A session in a Docker sandbox with internet, with the firewall and without. "The internet" is a network namespace on
// documentation addresses; beside it are a private network, a metadata service, another sandbox's container and this machine.
import { expect } from "chai";
import { readInstallId } from "#services/cli/state/secrets.ts";
import { stateFolder } from "#services/cli/state/state-folder.ts";
import { applyFirewall, removeFirewall } from "#services/docker-firewall/firewall.ts";
import { run } from "#services/docker-firewall/testing/command.ts";
import {
  INTERNET,
  METADATA,
  openHostPort,
  openOutside,
  PORT,
  PRIVATE,
} from "#services/docker-firewall/testing/outside.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { installKey } from "#shared/docker/names.ts";
import { Resources } from "#shared/service/resources.ts";
import { openTestInstall, openTestSession, type TestInstall } from "./testing/running-install.ts";

const POOL = "198.18.80.0/24";
const SIBLING_SUBNET = "198.18.80.248/29";
const SIBLING = "198.18.80.250";
const IMAGE = "debian:bookworm-slim";
const INTERNET_RANGE = "203.0.113.0/24";
/** Answers whoever connects. */
const LISTEN = `use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 5, LocalPort => ${PORT}, ReuseAddr => 1) or die;
while (my $c = $s->accept) { print $c "reached\\n"; close $c }`;

describe("a session in Docker with internet", function () {
  this.timeout(180_000);
  const resources = new Resources();
  let install: TestInstall;
  let key: string;
  let hostPort: number;

  before(async () => {
    await openOutside(resources);
    hostPort = await openHostPort(resources);
    await startSibling(resources);
    const limits = { memoryMiB: 512, processesMax: 64 };
    const at = (address: string, port = PORT) => `${address}:${port}`;
    const probe = {
      internet: [at(INTERNET)],
      metadata: [at(METADATA)],
      private: [at(PRIVATE), at(SIBLING)],
      hostPorts: [hostPort],
    };
    install = await openTestInstall({
      sandboxes: { provider: "docker", image: IMAGE, ...limits, internet: true, docker: { subnets: POOL }, probe },
    });
    const installId = (await readInstallId(stateFolder(install.statePath, {}, "/"))) ?? "";
    key = installKey(installId);
    resources.add("install", install, async () => {
      await install.close();
      await removeInstalls(dockerCli(), [installId]);
    });
  });

  after(() => resources.close());

  const tries = (...targets: string[]) =>
    targets.map(
      (target) => `(timeout 5 bash -c 'cat < /dev/tcp/${target}' 2>/dev/null | head -c 1 | grep -c . || true)`,
    );

  it("S60, C117: without the firewall, is refused before its first command, and says what to do", async () => {
    const session = await openTestSession(install.server, { message: { text: "$ echo ran" } });
    const ended = await session.event("TurnEnded");
    expect(ended).to.include({ reason: "failed" });
    expect(ended.failure).to.include({ code: "egress_open" });
    expect(ended.failure?.message).to.contain(`metadata ${METADATA}:${PORT}`);
    expect(ended.failure?.next).to.contain("`pistis docker-firewall`");
    const wrong = session.seen("EgressProbed").flatMap(({ findings }) => findings.filter(({ ok }) => !ok));
    const targets = wrong.map(({ target }) => target);
    expect(targets).to.include.members([`metadata ${METADATA}:${PORT}`, `private ${PRIVATE}:${PORT}`]);
    expect(targets.join("\n")).to.contain("the server's own port, as the server heard");
    expect(session.seen("ToolStarted")).to.deep.equal([]);
    await session.end();
    await session.event("SandboxDestroyed");
    await session.close();
  });

  it("S60, C117: with the firewall, passes its probe, reaches the internet and nothing else", async () => {
    await applyFirewall({ key, pool: POOL, except: [INTERNET_RANGE] });
    resources.add("rules", key, removeFirewall);
    const ask = `exec 3<>/dev/tcp/${INTERNET}/${PORT}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -n1 <&3`;
    const closed = [`${PRIVATE}/${PORT}`, `${METADATA}/${PORT}`, `${SIBLING}/${PORT}`, `203.0.113.254/${hostPort}`];
    const text = [ask, ...tries(...closed)].map((command) => `$ ${command}`).join("\n");
    const session = await openTestSession(install.server, { message: { text } });
    const ended = await session.event("TurnEnded");
    expect(ended.reason, JSON.stringify(ended.failure)).to.equal("completed");
    const [probed] = session.seen("EgressProbed");
    expect(probed?.passed).to.equal(true);
    const outcomes = new Map(probed?.findings.map(({ target, outcome }) => [target, outcome]));
    expect(outcomes.get(`internet ${INTERNET}:${PORT}`)).to.equal("answered");
    expect(outcomes.get(`private ${SIBLING}:${PORT}`)).to.be.oneOf(["refused", "unreachable"]);
    const [reached, ...others] = session.seen("ToolDone").map((done) => done.text.trim());
    expect(reached).to.contain("reached");
    expect(others.map((other) => other.split("\n")[0])).to.deep.equal(closed.map(() => "0"));
    await session.end();
    await session.event("SandboxDestroyed");
    await session.close();
    expect(await run("docker", "network", "ls", "-q", "--filter", `name=pistis-${key}`)).to.equal("");
  });
});

async function startSibling(resources: Resources): Promise<void> {
  const name = `pistis-sibling-${process.pid}`;
  await run("docker", "network", "create", "--subnet", SIBLING_SUBNET, name);
  resources.add("sibling's network", name, () => run("docker", "network", "rm", name));
  const at = ["--network", name, "--ip", SIBLING, "--name", name];
  await run("docker", "run", "-d", ...at, IMAGE, "perl", "-e", LISTEN);
  resources.add("sibling", name, () => run("docker", "rm", "-f", name));
}
