// Scripts that try to leave a Docker sandbox, run inside real ones that the provider made.
import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { expect } from "chai";
import { relaySocketName } from "#schemas/wire/relay-http.ts";
import { DEBIAN, type DockerGuests, openDockerGuests } from "#services/providers/docker/testing/docker-guests.ts";
import { startRequest } from "#services/providers/provider.contract.ts";
import { type RelayUnderTest, registerToken, startRelayForTest } from "#services/relay/tests/relay-under-test.ts";
import { newId } from "#shared/ids/ids.ts";
import { attempts } from "./attempts.ts";
import {
  type Outcomes,
  onProcess,
  outcomesIn,
  program,
  refused,
  refusedOnlyHere,
  type SystemCall,
} from "./system-calls.ts";

const execute = promisify(execFile);
const NOT_PERMITTED = "1";
const NO_SUCH_PROCESS = /^(3|22)$/;

describe("a Docker sandbox that tries to get out", function () {
  this.timeout(120_000);
  const request = startRequest();
  const neighbour = startRequest();
  const hostFileText = newId("event");
  const ownSocket = relaySocketName(request.sandboxId);
  const hostFile = `/tmp/pistis-escape-${process.pid}`;
  let guests: DockerGuests;
  let relay: RelayUnderTest;
  const run = (script: string) => guests.run(request.sandboxId, script);

  before(async () => {
    guests = await openDockerGuests();
    await writeFile(hostFile, hostFileText);
    relay = await startRelayForTest({ socketFolder: guests.setting.relaySocketFolder });
    await registerToken(relay, request.sandboxId);
    await guests.provider.create(request);
    await guests.provider.create(neighbour);
  });

  after(async () => {
    await rm(hostFile, { force: true });
    await guests.dispose();
    await relay.close();
  });

  for (const { what, script, prints } of attempts({ hostPid: process.pid, hostFile, hostFileText, ownSocket })) {
    it(what, async () => expect(await run(`bash -c '${script.replaceAll("'", "'\\''")}'`)).to.match(prints));
  }

  it("is refused every system call that leads out, and it is the sandbox that refuses", async () => {
    const calls = [...refusedOnlyHere, ...refused];
    const seen = await callsIn((text) => run(`perl - <<'EOF'\n${text}EOF`), calls);
    expect(seen).to.deep.equal(Object.fromEntries(calls.map(({ name }) => [name, NOT_PERMITTED])));
    const open = await callsIn(withoutLimits, refusedOnlyHere);
    expect(open).to.deep.equal(Object.fromEntries(refusedOnlyHere.map(({ name }) => [name, "done"])));
  });

  it("reaches no process of the machine", async () => {
    const seen = await callsIn((text) => run(`perl - <<'EOF'\n${text}EOF`), onProcess(process.pid));
    for (const [name, outcome] of Object.entries(seen)) expect(outcome, name).to.match(NO_SUCH_PROCESS);
    expect(Object.keys(seen)).to.have.length(3);
  });

  it("leaves nothing for another sandbox to find", async () => {
    await run("echo secret-of-one | tee /workspace/one /tmp/one /dev/shm/one /home/pistis/one > /dev/null");
    const found = await guests.run(
      neighbour.sandboxId,
      "cat /workspace/one /tmp/one /dev/shm/one /home/pistis/one 2>/dev/null; echo end",
    );
    expect(found).to.equal("end\n");
  });

  it("turns the file of its next join token into nothing else by a link", async () => {
    await run("ln -sf /opt/pistis/pistisd-entry /var/lib/pistisd/join-token; ln -sf /run/pistis /var/lib/pistisd/more");
    await guests.provider.stop(request);
    await guests.provider.restart({ ...request, taskId: newId("task") });
    expect(await run(`tail -n1 /opt/pistis/pistisd-entry; ls -d /run/pistis/${ownSocket}`)).to.equal(
      `done\n/run/pistis/${ownSocket}\n`,
    );
    expect(await guests.run(neighbour.sandboxId, "tail -n1 /opt/pistis/pistisd-entry")).to.equal("done\n");
  });
});

async function callsIn(run: (text: string) => Promise<string>, calls: readonly SystemCall[]): Promise<Outcomes> {
  return outcomesIn(await run(program(calls)));
}

/** A container of the same image whose root may do what the sandbox may not; it has no network either. */
async function withoutLimits(text: string): Promise<string> {
  const open = ["--security-opt", "seccomp=unconfined", "--cap-add", "SYS_ADMIN", "--network", "none"];
  const { stdout } = await execute("docker", ["run", "--rm", ...open, DEBIAN, "perl", "-e", text]);
  return stdout;
}
