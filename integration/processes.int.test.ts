// Every service as a process of its own, as `docker-compose.yml` and the Helm chart run them.
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { openTestSession } from "./testing/running-install.ts";
import { openServiceProcesses, type ProcessName, type ServiceProcesses } from "./testing/service-processes.ts";

describe("services as processes", function () {
  this.timeout(120_000);
  let install: ServiceProcesses;

  before(async () => {
    install = await openServiceProcesses();
    await install.startAll();
  });
  after(() => install.close());

  async function turn(text: string): Promise<string> {
    const session = await openTestSession(install.server);
    try {
      await session.post(text);
      const { reason } = await session.event("TurnEnded");
      expect(reason).to.equal("completed");
      return session
        .seen("ToolDone")
        .map((done) => done.text)
        .join("");
    } finally {
      await session.close();
    }
  }

  it("completes a turn with a command", async () => {
    expect(await turn("$ echo hello from $(cat /proc/sys/kernel/ostype)")).to.contain("hello from Linux");
  });

  it("gives each service a file that only its owner reads, with the variables that it may hold", async () => {
    const folder = join(install.statePath, "env");
    const files = await readdir(folder);
    expect(files).to.have.length(7);
    const holders = async (variable: string) => {
      const texts = await Promise.all(files.map(async (file) => [file, await readFile(join(folder, file), "utf8")]));
      return texts.flatMap(([file = "", text = ""]) => (text.includes(`${variable}=`) ? [file] : [])).sort();
    };
    for (const file of files) expect((await stat(join(folder, file))).mode & 0o777, file).to.equal(0o600);
    expect(await holders("PISTIS_ADMIN_TOKEN")).to.deep.equal(["gateway.env"]);
    expect(await holders("PISTIS_NATS_EDGE_SEED")).to.deep.equal(["scheduler.env"]);
    expect(await holders("DATABASE_URL")).to.not.include.members(["relay.env", "provider-local.env"]);
    expect(await holders("PISTIS_RELAY_KEY")).to.not.include.members(["projector.env", "provider-local.env"]);
  });

  it("goes on with the other brain when one is killed in a turn", async () => {
    const session = await openTestSession(install.server);
    await session.post("$ echo one\n$ echo two");
    await session.event("TurnEnded");
    await install.kill("brain-1");
    await session.post("$ echo three");
    const ended = await session.event("TurnEnded", 2);
    expect(ended.reason).to.equal("completed");
    await session.close();
    await install.start("brain-1");
  });

  it("comes back when nats-server and PostgreSQL are killed and started", async () => {
    await Promise.all([install.restart("nats-server"), install.restart("postgres")]);
    expect(await turn("$ echo after")).to.contain("after");
  });

  const services: ProcessName[] = ["gateway", "brain-1", "brain-2", "relay", "scheduler", "publisher", "projector"];
  for (const name of [...services, "provider-local"] as const) {
    it(`ends ${name} with exit code 0 on SIGTERM and starts it again`, async () => {
      const exit = await install.kill(name, "SIGTERM");
      expect(exit).to.deep.equal({ code: 0, signal: null });
      await install.start(name);
      expect(install.state(name)).to.equal("running");
    });
  }

  it("completes a turn after all of them were stopped and started", async () => {
    expect(await turn("$ echo again")).to.contain("again");
    expect(install.deaths).to.deep.equal([]);
  });

  it("refuses to start without its variables and says which and how to get them", async () => {
    await install.kill("relay", "SIGTERM");
    const failed = await install.start("relay", { environment: { PISTIS_LOG_LEVEL: "loud" } }).then(
      () => "started",
      (error: Error) => error.message,
    );
    expect(failed).to.contain("PISTIS_LOG_LEVEL").and.to.contain("next: `pistis relay --help`");
    await install.start("relay");
  });
});
