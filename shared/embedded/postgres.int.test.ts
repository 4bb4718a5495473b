import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { Client } from "pg";
import { Refusal } from "#shared/errors/errors.ts";
import { newSecret } from "#shared/ids/ids.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { testDatabase } from "#shared/testing/postgres.ts";
import { startPostgres } from "./postgres.ts";
import { findPostgres, mendLinks } from "./postgres-binaries.ts";

const run = promisify(execFile);

async function ask(url: string, text: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const answer = await client.query<{ value: string }>(text);
    return String(answer.rows[0]?.value);
  } finally {
    await client.end();
  }
}

describe("embedded PostgreSQL", function () {
  this.timeout(120_000);
  const password = newSecret();
  let resources: Resources;
  let stateDir: string;

  async function newStateDir(parent: string): Promise<string> {
    const folder = await mkdtemp(join(parent, "pistis-pg-"));
    await chmod(folder, 0o755);
    return resources.add("state", folder, () => rm(folder, { recursive: true, force: true }));
  }

  async function start(withParent = true) {
    const postgres = await startPostgres({ stateDir, password, log: silentLog, withParent });
    return resources.add("postgres", postgres, ({ close }) => close());
  }

  beforeEach(async () => {
    resources = new Resources();
    stateDir = await newStateDir(tmpdir());
  });
  afterEach(() => resources.close());

  it("keeps what was written over a stop and a start", async () => {
    const first = await start();
    await ask(first.url, "CREATE TABLE kept AS SELECT 'here' AS value");
    await first.close();
    const second = await start();
    expect(second.adopted).to.equal(false);
    expect(await ask(second.url, "SELECT value FROM kept")).to.equal("here");
  });

  it("has checksums and durable settings", async () => {
    const { url } = await start();
    for (const setting of ["data_checksums", "fsync", "full_page_writes", "synchronous_commit"]) {
      expect(await ask(url, `SELECT current_setting('${setting}') AS value`), setting).to.equal("on");
    }
    expect(await ask(url, "SELECT current_setting('listen_addresses') AS value")).to.equal("127.0.0.1");
  });

  it("refuses a wrong password, and says which file holds the right one", async () => {
    const first = await start();
    const attempt = startPostgres({ stateDir, password: "another", log: silentLog });
    const error = await attempt.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).to.be.instanceOf(Refusal).with.property("code", "postgres_password");
    expect(await ask(first.url, "SELECT 'fine' AS value")).to.equal("fine");
  });

  it("adopts the server that a killed parent left behind, instead of starting a second", async () => {
    const source = `
      const { startPostgres } = await import(${JSON.stringify(join(import.meta.dirname, "postgres.ts"))});
      const drop = () => undefined;
      const log = { debug: drop, info: drop, warn: drop, error: drop };
      const started = await startPostgres({ stateDir: ${JSON.stringify(stateDir)}, password: ${JSON.stringify(password)}, log });
      console.log(started.pid);
      setInterval(drop, 1000);`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", source], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(parent.stdout, "data");
    parent.kill("SIGKILL");
    await once(parent, "exit");
    const adopted = await start();
    expect(adopted.adopted).to.equal(true);
    expect(adopted.pid).to.equal(Number(String(line)));
    await adopted.close();
    expect((await start()).adopted).to.equal(false);
  });

  it("starts although a stale pid file names another live process", async () => {
    const first = await start();
    await first.close();
    const pidFile = join(stateDir, "postgres", "data", "postmaster.pid");
    await writeFile(pidFile, `${process.pid}\n${join(stateDir, "postgres", "data")}\n0\n5432\n\n127.0.0.1\n\nready\n`);
    expect((await start()).adopted).to.equal(false);
  });

  it("starts anew after it was killed itself", async () => {
    const first = await start();
    process.kill(first.pid, "SIGKILL");
    const second = await start();
    expect(await ask(second.url, "SELECT 'recovered' AS value")).to.equal("recovered");
  });

  it("says when it has ended by itself", async () => {
    const { pid, died } = await start();
    process.kill(pid, "SIGKILL");
    await once(died, "abort");
    expect(died.reason).to.have.property("code", "postgres_died");
  });

  it("runs under a folder that only its owner may enter", async () => {
    stateDir = await newStateDir(homedir());
    await chmod(stateDir, 0o700);
    const { url } = await start();
    expect(await ask(url, "SELECT 'here' AS value")).to.equal("here");
  });

  it("does not run as root", async () => {
    const { pid } = await start();
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    expect(/^CapEff:\s*(\w+)$/m.exec(status)?.[1]).to.equal("0000000000000000");
  });

  it("gives each test database its own tables", async () => {
    const one = await testDatabase();
    const two = await testDatabase();
    await ask(one.url, "CREATE TABLE mine AS SELECT 1 AS value");
    expect(await ask(two.url, "SELECT count(*) AS value FROM pg_tables WHERE tablename = 'mine'")).to.equal("0");
    await one.close();
    await two.close();
  });

  it("runs the programs that were found", async () => {
    const { postgres } = await findPostgres();
    const { stdout } = await run(postgres, ["--version"]);
    expect(stdout).to.match(/^postgres \(PostgreSQL\) \d+/);
  });

  it("mends the links that an install without scripts leaves out, and leaves the others alone", async () => {
    const root = await newStateDir(tmpdir());
    await mkdir(join(root, "native", "lib"), { recursive: true });
    await writeFile(join(root, "native", "lib", "libx.so.1.2"), "library");
    const links = [{ source: "native/lib/libx.so.1.2", target: "native/lib/libx.so" }];
    await writeFile(join(root, "native", "pg-symlinks.json"), JSON.stringify(links));
    await mendLinks(root);
    await mendLinks(root);
    expect(await readFile(join(root, "native", "lib", "libx.so"), "utf8")).to.equal("library");
  });
});
