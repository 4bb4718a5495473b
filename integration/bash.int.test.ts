// What a model is told when a command behaves badly: every case goes the whole way, from a message over the ledger,
// the brain and the relay to pistisd in a bubblewrap sandbox, and back.
import { expect } from "chai";
import type { EventOf } from "#schemas/ledger/event.ts";
import { interruptTurn } from "#services/cli/client/api.ts";
import { type FollowedSession, openTestInstall, openTestSession, type TestInstall } from "./testing/running-install.ts";

type Done = EventOf<"ToolDone">["data"];
const MB_100 = 100_000_000;

describe("bash, the whole way", () => {
  let install: TestInstall;
  let session: FollowedSession;

  before(async () => {
    install = await openTestInstall({ sandboxes: { processesMax: 200, memoryMiB: 1_024 } });
    session = await openTestSession(install.server);
  });
  after(async () => {
    await session.close();
    await install.close();
  });

  /** Posts the steps and resolves with what the turn's calls ended as. */
  async function turn(...steps: string[]): Promise<Done[]> {
    const [turns, calls] = [session.seen("TurnEnded").length, session.seen("ToolDone").length];
    await session.post(steps.join("\n"));
    const ended = await session.event("TurnEnded", turns + 1);
    expect(ended.reason, JSON.stringify(ended)).to.equal("completed");
    return session.seen("ToolDone").slice(calls);
  }

  async function command(text: string): Promise<Done> {
    const [done] = await turn("```bash", text, "```");
    if (done === undefined) throw new Error(`No result of ${text}`);
    return done;
  }

  it("C84: gives head, tail and the true count of 100 MB of output", async () => {
    const done = await command(`echo first; head -c ${MB_100 - 12} /dev/zero | tr '\\0' x; echo; echo last`);
    expect(done.outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    expect(done.output?.bytes).to.equal(MB_100);
    expect(done.text).to.match(/^first\nx{1000}/);
    expect(done.text).to.match(/x{1000}\nlast\n\[Exit code 0\.\]$/);
    expect(done.text).to.include(String(done.output?.omittedBytes));
    expect(done.text.length).to.be.lessThan(40_000);
  });

  it("C85: cuts one line of 10 MB and lets any range of it be read later", async () => {
    const done = await command("head -c 10000000 /dev/zero | tr '\\0' y");
    expect(done.output?.bytes).to.equal(10_000_000);
    expect(done.text.length).to.be.lessThan(40_000);
    const path = `/v1/sessions/${session.id}/calls/${done.callId}/output?from=5000000&length=10`;
    const range = await fetch(new URL(path, install.server.url), {
      headers: { authorization: `Bearer ${install.server.token}` },
    });
    expect(await range.text()).to.equal("yyyyyyyyyy");
  });

  it("C81: replaces what is no UTF-8 for the model, and shows NUL bytes without harm", async () => {
    const done = await command("printf 'a\\xffb\\x00c\\n'");
    expect(done.outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    expect(done.output?.bytes).to.equal(6);
    expect(done.text).to.match(/^a\ufffdb.c\n/);
  });

  it("C83: keeps a character whole that comes in two pieces", async () => {
    const done = await command("printf '\\xe2\\x82'; sleep 0.2; printf '\\xac\\n'");
    expect(done.text).to.match(/^€\n/);
    await session.liveOutput((text) => text.includes("€"));
  });

  it("C69: returns while a background server holds the pipe, and says by which handle it is reached", async () => {
    const done = await command("sleep 1000 & echo started");
    expect(done.outcome).to.deep.equal({ status: "exited", exitCode: 0 });
    expect(done.text).to.include("started").and.to.include(done.callId);
    const [killed] = await turn(`$ pkill -x sleep; sleep 0.1; pgrep -x sleep || echo none`);
    expect(killed?.text).to.include("none");
  });

  it("stops `sleep 1000 & wait` within its bound, with all that it started", async () => {
    const [turns, started] = [session.seen("TurnEnded").length, session.seen("ToolStarted").length];
    await session.post("$ sleep 1000 & wait");
    const { turnId } = await session.event("ToolStarted", started + 1);
    await interruptTurn(install.server, session.id);
    const ended = await session.event("TurnEnded", turns + 1);
    expect(ended).to.deep.include({ turnId, reason: "interrupted" });
    expect(session.seen("ToolDone").at(-1)?.outcome.status).to.equal("stopped");
    const [left] = await turn("$ pgrep -x sleep || echo none");
    expect(left?.text).to.include("none");
  });

  it("ends a fork bomb at the sandbox's limit and works on", async () => {
    const [turns, started] = [session.seen("TurnEnded").length, session.seen("ToolStarted").length];
    await session.post("$ bomb() { bomb | bomb & }; bomb; sleep 1000");
    await session.event("ToolStarted", started + 1);
    await interruptTurn(install.server, session.id);
    await session.event("TurnEnded", turns + 1);
    const [after] = await turn("$ echo still here");
    expect(after?.text).to.include("still here");
  });

  it("goes on after `kill -9 -1`, and keeps the files", async () => {
    await command("echo kept > /workspace/kept.txt");
    const turns = session.seen("TurnEnded").length;
    await session.post("$ kill -9 -1");
    const ended = await session.event("TurnEnded", turns + 1);
    expect(ended.reason).to.equal("completed");
    const [after] = await turn("$ cat /workspace/kept.txt");
    expect(after?.text).to.include("kept");
  });

  it("C75: closes standard input, so that a command that asks y/n ends and the model is told why", async () => {
    const done = await command("printf 'Do you want to continue? [y/n] '; read answer || exit 3");
    expect(done.outcome).to.deep.equal({ status: "exited", exitCode: 3 });
    expect(done.text).to.include("Standard input is closed");
  });

  it("C73: ends `git rebase -i` without an editor", async () => {
    const done = await command(
      [
        "cd $(mktemp -d) && git init -q . && git config user.email a@example.com && git config user.name a",
        "for n in 1 2 3; do echo $n > f; git add f; git commit -qm $n; done",
        "git rebase -i HEAD~2; echo code $?",
      ].join("\n"),
    );
    expect(done.outcome.status).to.equal("exited");
    expect(done.text).to.match(/code \d+/);
  });
});
