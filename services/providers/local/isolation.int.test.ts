// What the local provider's isolation holds, tried from inside.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { newSecret, sha256 } from "#shared/ids/ids.ts";
import { contractSpec, startRequest } from "../provider.contract.ts";
import type { SeenSandbox, StartSandbox } from "../provider.ts";
import { DAEMON_PROCESSES } from "./launch-script.ts";
import { openShellGuests, type ShellGuests } from "./testing/shell-guest.ts";

describe("isolation of local sandboxes", () => {
  let guests: ShellGuests;
  let request: StartSandbox;
  const inside = (command: string) => guests.run(request.sandboxId, command);

  beforeEach(async () => {
    guests = await openShellGuests();
    request = startRequest({ joinToken: newSecret() });
    await guests.provider.create(request);
  });
  afterEach(() => guests.dispose());

  it("shows no process but the sandbox's own", async () => {
    const pids = (await inside("ls /proc | grep -E '^[0-9]+$'")).trim().split("\n");
    expect(pids.length).to.be.lessThan(8);
    expect(await inside("cat /proc/1/cmdline")).to.include("pistisd-entry");
    const init = await inside("tr '\\0' '\\n' < /proc/1/environ");
    expect(init).to.include("HOME=/home/pistis").and.not.include(guests.folder);
    expect(await inside("for f in /proc/1/fd/*; do readlink $f; done")).to.not.include(guests.folder);
  });

  it("shows no file of this machine but what is listed", async () => {
    writeFileSync(join(guests.folder, "canary-4711"), "secret");
    writeFileSync(join(guests.setting.stateDir, "canary-4711"), "secret");
    expect(await inside("find / -name 'canary-4711' 2>/dev/null")).to.equal("");
    expect((await inside("ls /home /run /var/lib")).replaceAll("\n", " ").trim()).to.equal(
      "/home: pistis  /run: pistis pistis-join  /var/lib: pistisd",
    );
    const absent = ["/root", "/etc/shadow", "/etc/ssh", "/etc/gitconfig", "/var/log", "/sys", "/boot", "/srv"];
    expect(await inside(`ls -d ${absent.join(" ")} 2>/dev/null`)).to.equal("");
    expect(await inside(`ls ${guests.folder} 2>&1`)).to.include("No such file");
  });

  it("S60: has no network but a loopback of its own", async () => {
    const server = createServer((socket) => socket.end("host")).listen(0, "127.0.0.1");
    const abstract = createServer().listen("\0pistis-canary");
    try {
      await new Promise((resolve) => server.once("listening", resolve));
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      expect(await inside(`bash -c 'cat < /dev/tcp/127.0.0.1/${port}' 2>&1`)).to.include("Connection refused");
      expect(await inside("bash -c 'cat < /dev/tcp/192.0.2.1/80' 2>&1")).to.include("Network is unreachable");
      expect(await inside("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")).to.equal("lo\n");
      expect(await inside("getent hosts example.com || echo unknown")).to.equal("unknown\n");
      expect(await inside("cat /proc/net/unix")).to.not.include("pistis-canary");
    } finally {
      server.close();
      abstract.close();
    }
  });

  it("lets nothing be written but the workspace, the home and memory", async () => {
    const places = ["/", "/usr", "/etc", "/opt/pistis", "/run", "/run/pistis", "/dev", "/var/lib", "/home"];
    const tried = await inside(places.map((place) => `touch ${place}/x 2>/dev/null && echo ${place}`).join("\n"));
    expect(tried).to.equal("");
    const writable = ["/workspace", "/home/pistis", "/tmp", "/dev/shm", "/var/lib/pistisd"];
    const kept = await inside(writable.map((place) => `touch ${place}/x && echo ${place}`).join("\n"));
    expect(kept.trim().split("\n")).to.deep.equal(writable);
    expect(await inside("echo w > /proc/sys/kernel/hostname; echo 1 > /proc/sysrq-trigger")).to.include(
      "cannot create",
    );
  });

  it("gives no capability, no new privilege, no user namespace, and filters system calls", async () => {
    const status = await inside("cat /proc/self/status");
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
      expect(status).to.match(new RegExp(`^${set}:\\s0{16}$`, "m"));
    }
    expect(status).to.match(/^NoNewPrivs:\s1$/m);
    expect(status).to.match(/^Seccomp:\s2$/m);
    expect(status).to.match(/^Uid:\s1000\s1000\s1000\s1000$/m);
    expect(await inside("unshare --user true 2>&1")).to.include("failed");
    expect(await inside("mount -t tmpfs none /tmp 2>&1")).to.include("mount");
  });

  it("S41: hands the join token over so that it is in no environment, argument or file", async () => {
    const token = request.joinToken;
    expect(await inside("cat /home/pistis/token-hash")).to.include(sha256(token));
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    const holding = pids.filter((pid) => ["environ", "cmdline"].some((file) => holds(`/proc/${pid}/${file}`, token)));
    expect(holding).to.deep.equal([]);
    expect(await inside(`cat /proc/*/environ /proc/*/cmdline | grep -c ${token.slice(0, 9)}[${token[9]}]`)).to.equal(
      "0\n",
    );
    expect(await inside("ls -A /run/pistis-join")).to.equal("");
    const files = readdirSync(guests.setting.stateDir, { recursive: true, encoding: "utf8" });
    expect(files.filter((file) => holds(join(guests.setting.stateDir, file), token))).to.deep.equal([]);
  });

  it("holds the limit on processes, and stays usable", async () => {
    const { processesMax } = contractSpec;
    // Only what the shell does itself still works then; what was killed counts until process 1 has seen it.
    const bomb = `(for i in $(seq 300); do sleep 60 & done) 2>/dev/null; set -- /proc/[0-9]*; echo $#
      kill -9 -1; until [ $# -lt 9 ]; do set -- /proc/[0-9]*; done`;
    expect(Number(await inside(bomb))).to.be.within(processesMax, processesMax + DAEMON_PROCESSES);
    expect(await inside("echo usable")).to.equal("usable\n");
  });

  it("holds the limit on memory", async () => {
    // tail keeps all of a line that does not end.
    expect(await inside("head -c 3500M /dev/zero | tail -n 1 > /dev/null; echo over")).to.include("over");
    const running = await guests.provider.inspect(request);
    expect(running.state).to.equal("running");
  });

  it("ends a sandbox whose files take more than its disk limit, and says why", async () => {
    const small = startRequest({ spec: { ...contractSpec, diskMiB: 20 } });
    const told = new Promise<SeenSandbox>((resolve) => guests.provider.watch(resolve));
    await guests.provider.create(small);
    const write = "for i in 1 2 3 4 5 6; do head -c 18M /dev/urandom > /workspace/big$i; done; sync; echo written";
    expect(await guests.run(small.sandboxId, write)).to.equal("written\n");
    expect((await told).reason).to.include("over its limit of 20 MiB");
    expect((await guests.provider.inspect(small)).state).to.equal("stopped");
  });

  it("deletes whatever a sandbox left behind, and nothing that it points to", async () => {
    const precious = join(guests.folder, "precious");
    mkdirSync(precious);
    writeFileSync(join(precious, "file"), "precious");
    await inside(`cd /workspace
      ln -s ${precious} link; ln -s / root
      mkdir locked; touch locked/x; chmod 000 locked
      touch "$(printf 'a\\nb')" -- "-rf"
      d=dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd
      for i in $(seq 100); do mkdir $d && cd -P $d || break; done; touch deep`);
    await guests.provider.destroy(request);
    expect(readdirSync(join(guests.setting.stateDir, "sandboxes"))).to.deep.equal([]);
    expect(readFileSync(join(precious, "file"), "utf8")).to.equal("precious");
  });
});

describe("folders that local sandboxes see", () => {
  it("are read-only", async () => {
    const guests = await openShellGuests({ "/opt/tools": import.meta.dirname });
    try {
      const request = startRequest();
      await guests.provider.create(request);
      expect(await guests.run(request.sandboxId, "ls /opt/tools")).to.include("isolation.int.test.ts");
      expect(await guests.run(request.sandboxId, "touch /opt/tools/x 2>&1")).to.include("Read-only");
    } finally {
      await guests.dispose();
    }
  });
});

function holds(path: string, text: string): boolean {
  try {
    return statSync(path).isFile() && readFileSync(path).includes(text);
  } catch (error) {
    // A process that ended, a folder, a pipe: nothing to read.
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}
