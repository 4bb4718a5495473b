// What a sandbox is on a real engine: what it can see, and what others can see of it.
import { expect } from "chai";
import { z } from "zod";
import { sha256 } from "#shared/ids/ids.ts";
import { startRequest } from "../provider.contract.ts";
import type { StartSandbox } from "../provider.ts";
import { type DockerGuests, openDockerGuests } from "./testing/docker-guests.ts";

const seen = z.tuple([
  z.object({
    Config: z.object({ User: z.string(), Env: z.array(z.string()) }),
    HostConfig: z.looseObject({}),
    Mounts: z.array(z.object({ Type: z.string(), Destination: z.string(), RW: z.boolean() })),
    NetworkSettings: z.object({ Networks: z.record(z.string(), z.unknown()) }),
  }),
]);

describe("a Docker sandbox", function () {
  this.timeout(120_000);
  const joinToken = "kanarienvogel-join-token-kanarienvogel";
  let guests: DockerGuests;
  let request: StartSandbox;
  before(async () => {
    guests = await openDockerGuests();
    request = startRequest({ joinToken });
    await guests.provider.create(request);
  });
  after(() => guests.dispose());

  const run = (command: string) => guests.run(request.sandboxId, command);
  const inspect = async () => guests.cli("inspect", await guests.container(request.sandboxId));

  it("S40: gets its join token, which is then in no file, environment, label or argument", async () => {
    expect(await run("cat /home/pistis/token-hash")).to.contain(sha256(joinToken));
    expect(await inspect()).to.not.contain("kanarienvogel");
    expect(
      await run("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '[k]anarienvogel' || true"),
    ).to.equal("0\n");
    expect(await run("grep -rls '[k]anarienvogel' /workspace /home /var/lib /tmp /etc /run || true")).to.equal("");
  });

  it("is an ordinary user of its own with a name, without capabilities or new privileges", async () => {
    const [{ Config }] = seen.parse(JSON.parse(await inspect()));
    expect(Config.User).to.match(/^19\d{8}:19\d{8}$/);
    expect(await run("id -un; id -u")).to.equal(`pistis\n${Config.User.split(":")[0]}\n`);
    const status = await run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
      expect(status).to.contain(`${set}:\t0000000000000000`);
    expect(status).to.contain("NoNewPrivs:\t1").and.to.contain("Seccomp:\t2");
  });

  it("S60: has no interface but its loopback, and no name server to ask", async () => {
    expect(await run("ls /sys/class/net; cat /proc/net/route | wc -l")).to.equal("lo\n1\n");
    const [{ NetworkSettings, HostConfig }] = seen.parse(JSON.parse(await inspect()));
    expect(Object.keys(NetworkSettings.Networks)).to.deep.equal(["none"]);
    expect(HostConfig).to.include({ NetworkMode: "none", Privileged: false, PidMode: "", IpcMode: "private" });
  });

  it("sees of the host pistisd and the relay's folder, both read-only", async () => {
    const [{ Mounts }] = seen.parse(JSON.parse(await inspect()));
    expect(Mounts.map(({ Destination, RW }) => ({ Destination, RW }))).to.have.deep.members([
      { Destination: "/opt/pistis", RW: false },
      { Destination: "/run/pistis", RW: false },
    ]);
    expect(
      await run("touch /opt/pistis/x /run/pistis/x /etc/x /usr/x 2>/dev/null; ls /opt/pistis /run/pistis"),
    ).to.not.contain("x\n");
    expect(await run("ls -d /var/run/docker.sock /run/docker.sock 2>/dev/null || true")).to.equal("");
  });

  it("can write to its workspace, home and /tmp", async () => {
    expect(await run("for d in /workspace ~ /tmp /dev/shm; do touch $d/x && echo $d; done")).to.equal(
      "/workspace\n/home/pistis\n/tmp\n/dev/shm\n",
    );
  });

  it("C127: has limits as asked for and a sized /dev/shm", async () => {
    const [{ HostConfig }] = seen.parse(JSON.parse(await inspect()));
    const MIB = 1024 * 1024;
    expect(HostConfig).to.include({
      Memory: 256 * MIB,
      MemorySwap: 256 * MIB,
      NanoCpus: 1e9,
      PidsLimit: 128,
      ShmSize: 256 * MIB,
    });
    expect(await run("df -m /dev/shm | tail -n 1 | awk '{print $2}'")).to.equal("256\n");
    expect(await run("ulimit -c")).to.equal("0\n");
  });

  it("has a log on the host that stays small", async () => {
    const [{ HostConfig }] = seen.parse(JSON.parse(await inspect()));
    expect(HostConfig).to.deep.include({
      LogConfig: { Type: "json-file", Config: { "max-file": "1", "max-size": "1m" } },
    });
  });

  it("says in words what holds and what does not", () => {
    const { holds, doesNotHold } = guests.provider.isolation();
    expect(holds.join("\n")).to.contain("no capability").and.to.contain("memory, processes, processor time");
    expect(doesNotHold.join("\n")).to.contain("Disk space is watched");
  });
});
