import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import { connectNats } from "#shared/nats/connection.ts";
import { type NatsKeys, newNatsKeys } from "#shared/nats/keys.ts";
import { prepareNats } from "#shared/nats/setup.ts";
import { silentLog } from "#shared/service/log.ts";
import { findNatsServer } from "./find-nats-server.ts";
import { type NatsServer, startNatsServer } from "./nats-server.ts";

const SHARDS = 2;

describe("the embedded nats-server", () => {
  let stateDir: string;
  let keys: NatsKeys;
  let running: { close: () => Promise<void> }[];

  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "pistis-nats-server-"));
    keys = newNatsKeys();
    running = [];
  });
  afterEach(async () => {
    for (const server of running) await server.close();
    await rm(stateDir, { recursive: true, force: true });
  });

  const start = async (port?: number): Promise<NatsServer> => {
    const server = await startNatsServer({ stateDir, keys, shards: SHARDS, log: silentLog, ...(port ? { port } : {}) });
    running.push(server);
    return server;
  };
  const connect = (server: NatsServer, user: "setup" | "edge-setup" | "gateway") =>
    connectNats({ url: server.url, user, seed: keys[user].seed, name: "test" });

  it("listens on the loopback address and is gone when it is closed", async () => {
    const server = await start();
    expect(server.url).to.match(/^nats:\/\/127\.0\.0\.1:\d+$/);
    expect(server.durable).to.equal(true);
    expect(await commandOf(server.pid)).to.include("nats-server");
    await server.close();
    expect(await commandOf(server.pid)).to.equal("");
    expect(server.died.aborted).to.equal(false);
  });

  it("has what was stored when it is started again, also after SIGKILL", async () => {
    const first = await start();
    const [core, edge] = [await connect(first, "setup"), await connect(first, "edge-setup")];
    await prepareNats({ core, edge, shards: SHARDS });
    const gateway = await connect(first, "gateway");
    const { seq } = await gateway.jetstream().publish("ledger.0.ses_a", "kept");
    for (const connection of [core, edge, gateway]) await connection.close();
    process.kill(first.pid, "SIGKILL");
    await once(first.died, "abort");
    const again = await connect(await start(), "setup");
    const manager = await again.jetstreamManager();
    expect((await manager.streams.getMessage("LEDGER", { seq })).string()).to.equal("kept");
    await again.close();
  });

  it("tells when it ended without having been asked to", async () => {
    const server = await start();
    const told = once(server.died, "abort");
    process.kill(server.pid, "SIGKILL");
    await told;
    expect(server.died.reason).to.have.property("code", "nats_server_died");
  });

  it("ends with its parent, also when that is killed", async () => {
    const keysFile = join(stateDir, "keys.json");
    await writeFile(keysFile, JSON.stringify(keys));
    const parent = spawn(process.execPath, ["--input-type=module", "-e", parentProgram(stateDir, keysFile)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const pid = Number(await firstLine(parent));
    expect(await commandOf(pid)).to.include(stateDir);
    parent.kill("SIGKILL");
    await until(async () => (await commandOf(pid)) === "");
  });

  it("stops the server that an earlier start left behind", async () => {
    await (await start()).close();
    const orphan = await leaveOrphan(stateDir);
    const server = await start();
    expect(await commandOf(orphan)).to.equal("");
    expect(server.pid).to.not.equal(orphan);
  });

  it("does not touch a stranger whose process has the old number", async () => {
    await (await start()).close();
    await writeFile(join(stateDir, "nats-server.pid"), String(process.pid));
    await start();
  });

  it("refuses a state directory whose owner still lives", async () => {
    const server = await start();
    const error = await start().catch((reason: unknown) => reason);
    expect(error).to.include({ code: "state_in_use" });
    expect(await commandOf(server.pid)).to.include("nats-server");
  });

  it("says in the server's own words why it does not start", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const address = taken.address();
    const error = await start(typeof address === "object" ? address?.port : 0).catch((reason: unknown) => reason);
    taken.close();
    expect(error).to.include({ code: "nats_server_failed" });
    expect(error).to.have.property("message").that.includes("address already in use");
  });
});

/** Empty when there is no such process. */
async function commandOf(pid: number): Promise<string> {
  const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return command.replaceAll("\0", " ");
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await nextTurn();
}

async function firstLine(child: ChildProcess): Promise<string> {
  const [line] = await once(createInterface({ input: child.stdout ?? process.stdin }), "line");
  return String(line);
}

function parentProgram(stateDir: string, keysFile: string): string {
  const module = (name: string) => JSON.stringify(join(import.meta.dirname, name));
  return `
    import { readFileSync } from "node:fs";
    import { startNatsServer } from ${module("nats-server.ts")};
    import { silentLog } from ${module("../service/log.ts")};
    const keys = JSON.parse(readFileSync(${JSON.stringify(keysFile)}, "utf8"));
    const server = await startNatsServer({ stateDir: ${JSON.stringify(stateDir)}, keys, shards: 2, log: silentLog });
    console.log(server.pid);
  `;
}

/** A server without a parent, on the configuration of an earlier start. Its shell ends at once. */
async function leaveOrphan(stateDir: string): Promise<number> {
  const { command } = await findNatsServer({ log: silentLog });
  const shell = spawn("sh", [
    "-c",
    '"$1" -c "$2" >"$3" 2>&1 & echo $!',
    "sh",
    command,
    join(stateDir, "nats-server.conf"),
    join(stateDir, "log"),
  ]);
  const pid = Number(await firstLine(shell));
  await until(async () => (await readFile(join(stateDir, "nats-server.pid"), "utf8").catch(() => "")) === String(pid));
  return pid;
}
