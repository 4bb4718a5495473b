import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import type { Log } from "#shared/service/log.ts";
import { findNatsServer } from "./find-nats-server.ts";

describe("finding a nats-server", () => {
  let folder: string;
  let said: { level: string; text: string }[];
  let log: Log;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-find-"));
    said = [];
    const say = (level: string) => (_fields: object, text: string) => void said.push({ level, text });
    log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** `root` has no package sources, so that a download fails before it starts. */
  const search = (installed: readonly string[]) => ({ installed, cacheDir: join(folder, "cache"), root: folder, log });

  it("takes an installed one that is new enough, and says so", async () => {
    const installed = await program("bin", "v2.10.27");
    expect(await findNatsServer(search(["/nowhere/nats-server", installed]))).to.deep.equal({
      command: installed,
      version: "2.10.27",
      durable: true,
    });
    expect(said.map(({ level }) => level)).to.deep.equal(["info"]);
  });

  it("passes an old one over for a new one further down the list", async () => {
    const [old, recent] = [await program("old", "v2.9.10"), await program("new", "v2.15.1")];
    expect(await findNatsServer(search([old, recent]))).to.include({ command: recent });
  });

  it("takes the copy of an earlier start before an old one that is installed", async () => {
    const cached = await program("cache/nats-server", "v2.10.27");
    expect(await findNatsServer(search([await program("old", "v2.9.10")]))).to.include({ command: cached });
  });

  it("takes an old one when there is no other, with a loud warning", async () => {
    const old = await program("old", "v2.9.10");
    expect(await findNatsServer(search([old]))).to.deep.equal({ command: old, version: "2.9.10", durable: false });
    expect(said.at(-1)).to.have.property("level", "warn");
    expect(said.at(-1)?.text).to.include("NOT DURABLE");
  });

  it("says what to install when there is none", async () => {
    const error = await findNatsServer(search([])).catch((reason: unknown) => reason);
    expect(error).to.include({ code: "nats_server_missing" });
    expect(error).to.have.property("next").that.includes("NATS_URL");
  });

  it("does not take a program that only has the name", async () => {
    const error = await findNatsServer(search([await program("bin", "hello")])).catch((reason: unknown) => reason);
    expect(error).to.include({ code: "nats_server_missing" });
  });

  async function program(place: string, version: string): Promise<string> {
    await mkdir(join(folder, place), { recursive: true });
    const file = join(folder, place, "nats-server");
    await writeFile(file, `#!/bin/sh\necho "nats-server: ${version}"\n`);
    await chmod(file, 0o755);
    return file;
  }
});
