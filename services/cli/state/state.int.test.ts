import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { lockState } from "./lock.ts";
import { openSecrets } from "./secrets.ts";
import { makeStateFolder, type StateFolder, stateFolder } from "./state-folder.ts";

describe("the state folder", () => {
  let folder: StateFolder;
  beforeEach(async () => {
    folder = stateFolder(join(await mkdtemp(join(tmpdir(), "pistis-state-")), "state"), {}, "/");
    await makeStateFolder(folder);
  });
  afterEach(() => rm(join(folder.path, ".."), { recursive: true, force: true }));

  async function failure(attempt: Promise<unknown>): Promise<unknown> {
    return attempt.then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  it("is the option's, else the environment's, else ./.pistis", () => {
    expect(stateFolder("a", { PISTIS_STATE: "/b" }, "/c").path).to.equal("/c/a");
    expect(stateFolder(undefined, { PISTIS_STATE: "/b" }, "/c").path).to.equal("/b");
    expect(stateFolder(undefined, {}, "/c").path).to.equal("/c/.pistis");
  });

  it("makes its secrets once, for its owner only", async () => {
    const first = await openSecrets(folder);
    expect((await stat(folder.secrets)).mode & 0o777).to.equal(0o600);
    const second = await openSecrets(folder);
    expect([first.fresh, second.fresh]).to.deep.equal([true, false]);
    expect(second.secrets).to.deep.equal(first.secrets);
  });

  it("adds a secret that a newer version needs and keeps the others", async () => {
    const { secrets } = await openSecrets(folder);
    const { relayKey: _relayKey, natsKeys, ...older } = secrets;
    const { relay: _relay, ...olderKeys } = natsKeys;
    await writeFile(folder.secrets, JSON.stringify({ ...older, natsKeys: olderKeys }));
    const upgraded = await openSecrets(folder);
    expect(upgraded.secrets.adminToken).to.equal(secrets.adminToken);
    expect(upgraded.secrets.natsKeys.brain).to.deep.equal(natsKeys.brain);
    expect(upgraded.secrets.natsKeys.relay.seed).to.be.a("string");
    expect((await openSecrets(folder)).secrets).to.deep.equal(upgraded.secrets);
  });

  it("refuses broken secrets without showing them, and leaves them as they are", async () => {
    for (const text of [
      '{ "adminToken": "canary-canary" canary',
      '{ "adminToken": 1, "relayKey": "canary" }',
      '"canary"',
    ]) {
      await writeFile(folder.secrets, text);
      const error = await failure(openSecrets(folder));
      expect(error).to.be.instanceOf(Fatal).with.property("code", "secrets_broken");
      expect(String(error)).to.not.contain("canary");
      expect(await readFile(folder.secrets, "utf8")).to.equal(text);
    }
  });

  it("is locked by one at a time, who is named, until it is released", async () => {
    const lock = await lockState(folder, "pistis dev");
    const error = await failure(lockState(folder, "pistis run"));
    expect(error).to.be.instanceOf(Refusal).with.property("code", "state_in_use");
    expect(String(error)).to.contain(`pistis dev (process ${process.pid}`);
    await lock.release();
    await (await lockState(folder, "pistis run")).release();
  });

  it("is free again when its holder was killed", async () => {
    const source = `
      const { lockState } = await import(${JSON.stringify(join(import.meta.dirname, "lock.ts"))});
      await lockState(${JSON.stringify(folder)}, "a test");
      console.log("locked");
      setInterval(() => undefined, 1000);`;
    const holder = spawn(process.execPath, ["--input-type=module", "-e", source], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    expect(await failure(lockState(folder, "pistis dev"))).to.be.instanceOf(Refusal);
    holder.kill("SIGKILL");
    await once(holder, "exit");
    await (await lockState(folder, "pistis dev")).release();
  });
});
