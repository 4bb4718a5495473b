// Every service as a process of its own, as `docker-compose.yml` and the Helm chart run them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { z } from "zod";
import { interruptTurn } from "#services/cli/client/api.ts";
import { untilGone } from "./testing/processes/process-tree.ts";
import { openTestSession } from "./testing/running-install.ts";
import { openServiceProcesses, type ProcessName, type ServiceProcesses } from "./testing/service-processes.ts";

function brainOf(name = ""): ProcessName {
  return name.startsWith("brain-1-") ? "brain-1" : "brain-2";
}

describe("services as processes", function () {
  this.timeout(120_000);
  let install: ServiceProcesses;

  before(async () => {
    install = await openServiceProcesses({
      config: {
        models: { claude: { api: "anthropic", model: "any", apiKey: "${TEST_MODEL_KEY}" } },
        git: { credentials: [{ host: "git.invalid", token: "${TEST_GIT_TOKEN}" }] },
      },
      environments: { brain: { TEST_MODEL_KEY: "of-the-brain" }, publisher: { TEST_GIT_TOKEN: "of-the-publisher" } },
    });
    await install.startAll();
  });
  after(() => install?.close());

  async function failureOf(start: Promise<void>): Promise<string> {
    return start.then(
      () => "It started",
      (error: Error) => error.message,
    );
  }

  async function turn(message: string): Promise<string> {
    const session = await openTestSession(install.server);
    try {
      await session.post(message);
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
    expect(files).to.have.length(10);
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

  it("goes on with the other brain when one is killed between turns", async () => {
    const session = await openTestSession(install.server);
    await session.post("$ echo one");
    await session.event("TurnEnded");
    const first = brainOf(session.seen("TurnStarted")[0]?.brain);
    await install.kill(first);
    await session.post("$ echo two");
    expect((await session.event("TurnEnded", 2)).reason).to.equal("completed");
    await session.close();
    await install.start(first);
  });

  it("comes back when nats-server and PostgreSQL are killed and started", async () => {
    await Promise.all([install.restart("nats-server"), install.restart("postgres")]);
    expect(await turn("$ echo after")).to.contain("after");
  });

  /** A session whose command prints a line now and then; `pid` is what its shell says of itself. */
  async function counting(lines: number) {
    const session = await openTestSession(install.server);
    const command = `echo pid $$; for n in $(seq ${lines}); do echo line $n; sleep 0.05; done; echo one >> runs; cat runs`;
    await session.post(`$ ${command}`);
    await session.liveOutput((output) => output.includes("line 3"));
    return session;
  }

  /** The command ran once, in one process, and nothing of its output is missing or there twice. */
  function expectWhole(text: string | undefined, lines: number): void {
    const numbers = Array.from({ length: lines }, (_, index) => `line ${index + 1}`);
    const [pid, ...rest] = (text ?? "").trim().split("\n");
    expect(pid).to.match(/^pid \d+$/);
    expect(rest).to.deep.equal([...numbers, "one", "[Exit code 0.]"]);
  }

  it("C17: a brain is killed in a command; another one attaches to the same process and tells its whole result", async () => {
    const session = await counting(60);
    const first = brainOf(session.seen("TurnStarted")[0]?.brain);
    await install.kill(first);
    expectWhole((await session.event("ToolDone")).text, 60);
    expect((await session.event("TurnEnded")).reason).to.equal("completed");
    expect(brainOf(session.seen("TurnTakenOver")[0]?.brain)).to.not.equal(first);
    expect(session.seen("ToolStarted")).to.have.length(1);
    await session.close();
    await install.start(first);
  });

  it("C25: the relay is killed in a command and started again; output goes on without a gap, in the same process", async () => {
    const session = await counting(40);
    await install.restart("relay");
    expectWhole((await session.event("ToolDone")).text, 40);
    expect(session.seen("ToolStarted")).to.have.length(1);
    await session.liveOutput((output) => output.includes("line 40"));
    await session.close();
  });

  it("C23: takes over when a brain hangs in a turn, and fences the one that wakes up", async () => {
    const session = await openTestSession(install.server);
    await session.post("$ echo begun; sleep 1000\n$ echo never");
    await session.liveOutput((output) => output.includes("begun"));
    const name = brainOf(session.seen("TurnStarted")[0]?.brain);
    install.pause(name);
    await session.event("TurnTakenOver");
    install.resume(name);
    await interruptTurn(install.server, session.id);
    expect((await session.event("TurnEnded")).reason).to.equal("interrupted");
    await session.post("$ echo after");
    expect((await session.event("TurnEnded", 2)).reason).to.equal("completed");
    expect(session.seen("TurnTakenOver")).to.have.length(1);
    expect(session.seen("ToolStarted")).to.have.length(2);
    await session.close();
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

  it("lets go of a turn at SIGTERM, and the other brain goes on with it at once", async () => {
    const session = await openTestSession(install.server);
    await session.post("$ echo begun; sleep 1000");
    await session.liveOutput((output) => output.includes("begun"));
    const first = brainOf(session.seen("TurnStarted")[0]?.brain);
    expect(await install.kill(first, "SIGTERM")).to.deep.equal({ code: 0, signal: null });
    const { brain } = await session.event("TurnTakenOver");
    expect(brainOf(brain)).to.not.equal(first);
    await interruptTurn(install.server, session.id);
    await session.event("TurnEnded");
    await session.close();
    await install.start(first);
  });

  it("completes a turn after all of them were stopped and started", async () => {
    expect(await turn("$ echo again")).to.contain("again");
    expect(install.deaths).to.deep.equal([]);
  });

  it("needs the keys of pistis.json in no other process than the one that uses them", async () => {
    await install.kill("brain-2", "SIGTERM");
    const failed = await failureOf(install.start("brain-2", { environment: { TEST_MODEL_KEY: "" } }));
    expect(failed).to.contain("models.claude.apiKey");
    await install.start("brain-2");
  });

  it("refuses to start without its variables and says which and how to get them", async () => {
    await install.kill("relay", "SIGTERM");
    const failed = await failureOf(install.start("relay", { environment: { PISTIS_LOG_LEVEL: "loud" } }));
    expect(failed).to.contain("PISTIS_LOG_LEVEL").and.to.contain("next: `pistis relay --help`");
    await install.start("relay");
  });

  it("C140: ends every service with exit code 0 on SIGTERM while NATS is away", async () => {
    await install.kill("nats-server");
    const running = install.names.filter((name) => name !== "postgres" && install.state(name) === "running");
    const exits = await Promise.all(running.map(async (name) => [name, await install.kill(name, "SIGTERM")] as const));
    expect(exits.filter(([, { code }]) => code !== 0)).to.deep.equal([]);
  });

  it("starts services before nats-server and PostgreSQL are there: they say so, wait and serve", async () => {
    await install.kill("postgres");
    const services = install.names.filter((name) => name !== "nats-server" && name !== "postgres");
    const before = install.deaths.length;
    await Promise.all(services.map((name) => install.launch(name)));
    const waits = (name: ProcessName) => install.lines(name).some((line) => line.includes("it is tried again for"));
    while (!services.every(waits)) await delay(20);
    await Promise.all([install.start("nats-server"), install.start("postgres")]);
    await Promise.all(services.map((name) => install.ready(name)));
    expect(install.deaths.slice(before)).to.deep.equal([]);
    expect(await turn("$ echo all there")).to.contain("all there");
  });
});

const member = z.object({ pid: z.number(), startTicks: z.string() });
const abandoned = z.object({ members: z.array(member).min(4), folder: z.string() });

describe("an install of processes", function () {
  this.timeout(120_000);

  it("leaves no process behind when the tests themselves are killed, not even a paused one", async () => {
    const program = join(import.meta.dirname, "testing", "processes", "abandoned-install.ts");
    const child = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
    const [out, [, signal]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    expect(signal).to.equal("SIGKILL");
    const { members, folder } = abandoned.parse(JSON.parse(out));
    await untilGone(members);
    await rm(folder, { recursive: true, force: true });
  });
});
