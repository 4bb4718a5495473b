// The warm pool of a whole install with the local provider: real NATS, PostgreSQL, relay and bubblewrap.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { readInstallId } from "#services/cli/state/secrets.ts";
import { serviceFolders, stateFolder } from "#services/cli/state/state-folder.ts";
import { dockerCli, removeInstalls } from "#services/providers/docker/testing/docker-guests.ts";
import { LABELS } from "#shared/docker/names.ts";
import { claimOf, has, isWaiting, type PoolWatch, watchPool } from "./testing/pool-watch.ts";
import { openTestInstall, openTestSession, type TestInstall } from "./testing/running-install.ts";

const run = promisify(execFile);
const PISTIS = resolve(import.meta.dirname, "../services/cli/pistis");
const sandboxOf = (member: string) => member.replace(/^ses_/, "sbx_");
const SANDBOXES = { provider: "local" as const, warm: 1, memoryMiB: 512, processesMax: 64 };

describe("the warm pool of an install", () => {
  let folder: string;
  let install: TestInstall;
  let pool: PoolWatch;
  const start = async (sandboxes: object = SANDBOXES) => {
    install = await openTestInstall({ sandboxes: { ...SANDBOXES, ...sandboxes } }, folder);
    pool = watchPool(install.server);
  };
  const stop = async () => {
    await pool.close();
    await install.close();
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "pistis-warm-"));
    await start();
  });
  after(async () => {
    await stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("hands a started sandbox over, with the facts of a fresh one, and makes the next", async () => {
    await pool.until((members) => members.some(isWaiting));
    const [warm] = pool.members();
    const session = await openTestSession(install.server, { message: { text: "$ pwd\n$ ls -A" } });
    await session.event("TurnEnded");
    const created = await session.event("SandboxCreateRequested");
    expect(created).to.include({ sandboxId: sandboxOf(warm?.member ?? ""), generation: 1, provider: "local" });
    const types = session.messages.flatMap(({ events }) => events.map(({ type }) => type));
    expect(types.filter((type) => /^(Sandbox|Egress)/.test(type))).to.deep.equal([
      "SandboxNeeded",
      "SandboxCreateRequested",
      "SandboxCreated",
      "SandboxJoined",
      "EgressProbed",
    ]);
    expect(session.seen("ToolDone").map(({ text }) => text)).to.deep.equal([
      "/workspace\n[Exit code 0.]",
      "(no output)\n[Exit code 0.]",
    ]);
    await pool.until((members) => members.length === 2 && members.some(isWaiting));
    expect(pool.members().flatMap((member) => claimOf(member) ?? [])).to.deep.equal([{ claimedBy: session.id }]);
    await session.end();
    await session.event("SandboxDestroyed");
    await session.close();
  });

  it("is counted by pistis status", async () => {
    await pool.until((members) => members.some(isWaiting));
    const { stdout } = await run(PISTIS, ["status", "--json", "--state", join(folder, "state")], { cwd: folder });
    expect(JSON.parse(stdout).warmPool).to.deep.include({ ready: 1, starting: 0, deleting: 0, failuresInRow: 0 });
  });

  it("hands over none that an earlier run left, and leaves nothing of it behind", async () => {
    await pool.until((members) => members.some(isWaiting));
    const old = pool.members().filter(isWaiting);
    await stop();
    await start();
    const session = await openTestSession(install.server, { message: { text: "$ echo up" } });
    await session.event("TurnEnded");
    expect(session.seen("ToolDone").map(({ text }) => text)).to.deep.equal(["up\n[Exit code 0.]"]);
    const { sandboxId } = await session.event("SandboxJoined");
    expect(old.map(({ member }) => sandboxOf(member))).to.not.include(sandboxId);
    await pool.until((members) =>
      old.every(({ member }) => members.some((one) => one.member === member && has(one, "SandboxDestroyed"))),
    );
    await session.end();
    await session.event("SandboxDestroyed");
    await session.close();
  });

  it("deletes its sandboxes when sandboxes.warm is 0", async () => {
    await pool.until((members) => members.some(isWaiting));
    await stop();
    await start({ warm: 0 });
    await pool.until((members) =>
      members.every((member) => has(member, "SandboxDestroyed") || claimOf(member) !== undefined),
    );
    const { sandboxes } = serviceFolders(stateFolder(join(folder, "state"), {}, folder));
    expect(await readdir(join(sandboxes, "sandboxes"))).to.deep.equal([]);
  });
});

describe("the warm pool in Docker", function () {
  this.timeout(180_000);
  const limits = { memoryMiB: 512, processesMax: 64 };
  let install: TestInstall;
  let pool: PoolWatch;
  before(async () => {
    install = await openTestInstall({
      sandboxes: { provider: "docker", image: "debian:bookworm-slim", warm: 1, ...limits },
    });
    pool = watchPool(install.server);
  });
  after(async () => {
    const installId = await readInstallId(stateFolder(install.statePath, {}, "/"));
    await pool.close();
    await install.close();
    await removeInstalls(dockerCli(), [installId ?? ""]);
  });

  it("hands a container over, whose end and deletion are the session's from then on", async () => {
    await pool.until((members) => members.some(isWaiting));
    const session = await openTestSession(install.server, { message: { text: "$ echo kept > /workspace/kept" } });
    await session.event("TurnEnded");
    const { sandboxId } = await session.event("SandboxJoined");
    expect(sandboxId).to.match(/^sbx_pool/);
    const own = ["ps", "-aq", "--filter", `label=${LABELS.session}=${sandboxId.replace(/^sbx_/, "ses_")}`];
    const container = (await run("docker", own)).stdout.trim();
    await run("docker", ["kill", container]);
    await session.event("SandboxStopped");
    await session.post("$ cat /workspace/kept");
    await session.event("TurnEnded", 2);
    expect(session.seen("SandboxRestarted")).to.have.length(1);
    expect(session.seen("ToolDone").at(-1)?.text).to.contain("kept");
    await session.end();
    await session.event("SandboxDestroyed");
    expect((await run("docker", own)).stdout).to.equal("");
    await session.close();
  });
});
