import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { listSessions } from "../client/api.ts";
import { type Folder, killAll, newFolder } from "../testing/command.ts";

const git = promisify(execFile);

async function newRepository(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  await writeFile(join(path, "readme.txt"), "of the repository\n");
  const identity = ["-c", "user.name=Test", "-c", "user.email=test@example.test"];
  await git("git", ["-C", path, "init", "--quiet", "--initial-branch", "main"]);
  await git("git", ["-C", path, "add", "."]);
  await git("git", ["-C", path, ...identity, "commit", "--quiet", "--message", "First"]);
}

describe("pistis run", function () {
  this.timeout(120_000);

  describe("on a server that runs", () => {
    let folder: Folder;
    let dev: Awaited<ReturnType<Folder["dev"]>>;

    before(async () => {
      folder = await newFolder();
      const broken = { api: "openai-compatible", model: "none", baseUrl: "http://127.0.0.1:1/v1" };
      const sandboxes = { provider: "local" };
      const config = { models: { broken }, limits: { modelRetriesMax: 0 }, sandboxes };
      await writeFile(join(folder.path, "pistis.json"), JSON.stringify(config));
      dev = await folder.dev();
    });
    after(async () => {
      await killAll(dev);
      await folder.remove();
    });

    it("shows a task on a repository until its turn is over", async () => {
      await newRepository(join(folder.path, "repository", "inner"));
      const { exitCode, out, err } = await folder.run([
        "run",
        "$ cat readme.txt\n> write new.txt\n```\nx\n```",
        "--repo",
        "repository/inner",
      ]);
      expect(err).to.equal("");
      expect(exitCode).to.equal(0);
      expect(out).to.contain("repository copied in: main at").and.to.contain("  of the repository\n");
      expect(out).to.contain("✓ turn completed").and.to.contain("changed by write and edit: new.txt");
      expect(out).to.not.contain("\u001b");
    });

    it("ends with the exit code 1 and the reason when the turn fails", async () => {
      const { exitCode, out } = await folder.run(["run", "hello", "--model", "broken"]);
      expect(exitCode).to.equal(1);
      expect(out).to.contain("✗ turn failed: ");
    });

    it("takes a script from a file", async () => {
      await writeFile(join(folder.path, "steps.md"), "Prose.\n\n$ echo from the script\n");
      const { exitCode, out } = await folder.run(["run", "--script", "steps.md"]);
      expect(exitCode).to.equal(0);
      expect(out).to.contain("  from the script\n");
    });

    it("interrupts the turn at Ctrl-C: the command ends, the session stays (C63)", async () => {
      const run = folder.start(["run", "$ echo begun; sleep 1000\n$ echo never"]);
      await run.says("  begun");
      run.child.kill("SIGINT");
      const { exitCode, out } = await run.ended;
      expect(exitCode).to.equal(130);
      expect(out).to.contain("✗ turn interrupted").and.not.contain("  never");
      const [session] = (await listSessions(dev.server, 1)).sessions;
      expect(session?.lastTurn?.reason).to.equal("interrupted");
    });

    it("leaves at the second Ctrl-C", async () => {
      const run = folder.start(["run", "$ trap '' TERM INT; echo begun; sleep 1000"]);
      await run.says("  begun");
      run.child.kill("SIGINT");
      await run.says("stopping the turn");
      run.child.kill("SIGINT");
      expect((await run.ended).exitCode).to.equal(130);
    });

    it("says before it asks the server what is wrong with the request", async () => {
      const cases: [string[], string][] = [
        [["run"], "There is no task"],
        [["run", "x", "--repo", "/nowhere"], "/nowhere is no folder"],
        [["run", "x", "--ref", "main"], "--ref needs --repo"],
        [["run", "x", "--script", "steps.md"], "Both a task and --script"],
        [["run", "x", "--repo", "/proc"], "is in no git repository"],
        [["run", "x", "--model", "none"], 'There is no model "none"'],
      ];
      for (const [args, expected] of cases) {
        const { exitCode, err } = await folder.run(args);
        expect(exitCode, expected).to.equal(1);
        expect(err).to.contain(expected).and.to.contain("next: ");
      }
    });

    it("goes on with a session by attach, and lists, follows and ends it", async () => {
      await folder.run(["run", "$ echo first"]);
      const [session = ""] = (await folder.run(["sessions", "--limit", "1", "--json"])).out.split("\n");
      const { id } = JSON.parse(session);
      const attached = await folder.run(["attach", id, "--message", "$ echo second"]);
      expect(attached.exitCode).to.equal(0);
      expect(attached.out).to.contain("  first\n").and.to.contain("  second\n");
      const events = await folder.run(["events", "--session", id, "--type", "ToolDone", "--json"]);
      expect(
        events.out
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line).session),
      ).to.deep.equal([id, id]);
      const watching = folder.start(["attach", id, "--no-history"]);
      await watching.says(id);
      expect((await folder.run(["end", id])).out).to.contain(`session ${id} is end`);
      expect((await watching.ended).exitCode).to.equal(0);
      expect((await folder.run(["events", "--session", id])).out).to.contain("SessionEnded");
    });

    it("prints the ledger of all sessions, and follows it", async () => {
      const following = folder.start(["events", "--follow", "--type", "SessionCreated"]);
      await following.says("SessionCreated");
      await folder.run(["run", "$ true"]);
      const all = await folder.run(["events", "--writer", "scheduler"]);
      expect(all.out).to.contain("SandboxCreated").and.not.contain("SessionCreated");
      following.child.kill("SIGINT");
      const { out, exitCode } = await following.ended;
      expect(exitCode).to.equal(0);
      expect(out).to.not.contain("TurnStarted");
    });

    it("says that a session does not exist, or a token is wrong", async () => {
      const unknown = await folder.run(["attach", "ses_none"]);
      expect(unknown.exitCode).to.equal(1);
      expect(unknown.err).to.contain("pistis: ");
      const wrong = await folder.run(["sessions"], { PISTIS_URL: dev.server.url, PISTIS_TOKEN: "wrong" });
      expect(wrong.exitCode).to.equal(1);
      expect(wrong.err).to.match(/token/i);
    });
  });

  it("starts everything itself where no server runs, says so, and keeps the session", async () => {
    const folder = await newFolder();
    try {
      const { exitCode, out, err } = await folder.run(["run", "$ echo alone"]);
      expect(err).to.contain("no server runs on").and.to.contain("PostgreSQL");
      expect(out).to.contain("  alone\n");
      expect(exitCode).to.equal(0);
      const none = await folder.run(["sessions"]);
      expect(none.exitCode).to.equal(1);
      expect(none.err).to.contain("next: Start one with pistis dev");
      const dev = await folder.dev();
      expect((await folder.run(["sessions"])).out).to.contain("$ echo alone");
      await killAll(dev);
    } finally {
      await folder.remove();
    }
  });
});
