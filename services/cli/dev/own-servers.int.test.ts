import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { findNatsServer } from "#shared/embedded/find-nats-server.ts";
import { pathExists } from "#shared/files/path-exists.ts";
import { silentLog } from "#shared/service/log.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { type Folder, killAll, newFolder } from "../testing/command.ts";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("There is no port");
  return address.port;
}

describe("pistis dev with servers of one's own", function () {
  this.timeout(120_000);
  let folder: Folder;
  beforeEach(async () => {
    folder = await newFolder();
  });
  afterEach(() => folder.remove());

  it("uses NATS_URL and DATABASE_URL instead of the embedded ones", async () => {
    const database = await testDatabase();
    const port = await freePort();
    const where = [
      "--port",
      String(port),
      "--store",
      join(folder.path, "store"),
      "--pid-file",
      join(folder.path, "pid"),
    ];
    const { out } = await folder.run(["nats-config", ...where]);
    await writeFile(join(folder.path, "nats.conf"), out);
    const { command } = await findNatsServer({ log: silentLog });
    const nats = spawn(command, ["-c", join(folder.path, "nats.conf")], { stdio: ["ignore", "ignore", "pipe"] });
    try {
      for await (const line of createInterface({ input: nats.stderr })) if (line.includes("Server is ready")) break;
      const environment = { NATS_URL: `nats://127.0.0.1:${port}`, DATABASE_URL: database.url };
      const dev = folder.start(["dev", "--port", "0"], environment);
      await dev.says("token  ");
      const run = await folder.run(["run", "$ echo on my own servers"]);
      expect(run.exitCode).to.equal(0);
      expect(run.out).to.contain("  on my own servers\n");
      for (const embedded of ["nats", "postgres"]) {
        expect(await pathExists(join(folder.path, "state", embedded)), embedded).to.equal(false);
      }
      await killAll(dev);
    } finally {
      nats.kill("SIGKILL");
      await once(nats, "exit");
      await database.close();
    }
  });

  it("says what is wrong with a server that does not answer, or keys that are none", async () => {
    const unreachable = await folder.run(["dev", "--port", "0"], { NATS_URL: "nats://127.0.0.1:1" });
    expect(unreachable.exitCode).to.equal(1);
    expect(unreachable.err).to.contain("nats://127.0.0.1:1").and.to.contain("next: ");
    await writeFile(join(folder.path, "keys.json"), '{ "brain": "SU-canary" }');
    const environment = { NATS_URL: "nats://127.0.0.1:1", PISTIS_NATS_KEYS: join(folder.path, "keys.json") };
    const keyless = await folder.run(["dev", "--port", "0", "--verbose"], environment);
    expect(keyless.exitCode).to.equal(1);
    expect(keyless.err).to.contain("does not hold a key for every NATS user").and.not.contain("canary");
  });
});
