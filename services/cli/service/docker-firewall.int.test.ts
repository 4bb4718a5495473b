// The command as a person runs it, in a network namespace of its own.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const execute = promisify(execFile);
const MAIN = resolve(import.meta.dirname, "../main.ts");

describe("pistis docker-firewall", () => {
  const namespace = `pistis-cli-${process.pid}`;
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-cli-firewall-"));
    await execute("ip", ["netns", "add", namespace]);
  });
  after(async () => {
    await execute("ip", ["netns", "delete", namespace]);
    await rm(folder, { recursive: true, force: true });
  });

  it("applies, checks and removes the rules of its install and says what it found", async () => {
    expect(await run("--apply")).to.equal("exit 0: The firewall holds for 10.208.0.0/12\n");
    expect(await run("--check")).to.equal("exit 0: The firewall holds\n");
    expect(await run("--remove")).to.equal("exit 0: The firewall's rules were removed\n");
    expect(await run("--check")).to.match(/^exit 1: the chain PISTIS-[0-9a-f]{12}-NO is missing\n/);
  });

  it("takes the range from pistis.json, and refuses where there is none of its own", async () => {
    await writeConfig({ sandboxes: { docker: { subnets: "10.64.0.0/16" } } });
    expect(await run()).to.contain("iptables -w -I INPUT 1 -s 10.64.0.0/16 ");
    await writeConfig({ sandboxes: { docker: { subnets: "engine" } } });
    expect(await run()).to.match(/^exit 1: .*next: .*sandboxes\.docker\.subnets/s);
  });

  function writeConfig(config: object): Promise<void> {
    return writeFile(join(folder, "pistis.json"), JSON.stringify(config));
  }

  /** What it prints, on both outputs. */
  async function run(...options: string[]): Promise<string> {
    const args = ["netns", "exec", namespace, process.execPath, MAIN, "docker-firewall", ...options];
    const env = { PATH: process.env["PATH"], PISTIS_INSTALL_ID: "install-of-the-firewall-test" };
    return execute("ip", args, { cwd: folder, env }).then(
      ({ stdout }) => `exit 0: ${stdout}`,
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) =>
        `exit ${code}: ${stdout}${stderr}`,
    );
  }
});
