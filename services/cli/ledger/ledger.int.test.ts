import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { createSession, postMessage, type Server } from "../client/api.ts";
import { followSession } from "../client/stream.ts";
import { type Command, type Folder, killAll, newFolder } from "../testing/command.ts";

async function say(server: Server, session: string, text: string): Promise<void> {
  const { messageId } = await postMessage(server, session, { text });
  const stop = new AbortController();
  let started: string | undefined;
  for await (const item of followSession(server, session, 0, stop.signal)) {
    if (item.kind !== "ledger") continue;
    for (const event of item.message.events) {
      if (event.type === "TurnStarted" && event.data.messageIds.includes(messageId)) started = event.data.turnId;
      if (event.type === "TurnEnded" && event.data.turnId === started) return stop.abort();
    }
  }
}

describe("pistis ledger, projections and status", function () {
  this.timeout(120_000);
  let folder: Folder;
  const started: Command[] = [];

  async function dev() {
    const command = await folder.dev();
    started.push(command);
    return command;
  }
  async function stop(command: Command) {
    command.child.kill("SIGTERM");
    await command.ended;
  }

  beforeEach(async () => {
    folder = await newFolder();
  });
  afterEach(async () => {
    for (const command of started.splice(0)) await killAll(command);
    await folder.remove();
  });

  it("prove a running install and a stopped one, and say how far each service is", async () => {
    const running = await dev();
    const { session } = await createSession(running.server, { title: "proof" });
    await say(running.server, session.id, "$ echo one");
    const asked = await folder.run(["ledger", "verify", "--json"]);
    const proof = JSON.parse(asked.out);
    expect(proof).to.include({ whole: true, faultySessions: 0 });
    expect(proof.messages).to.be.greaterThan(5);
    expect(asked.exitCode).to.equal(0);
    const one = await folder.run(["ledger", "verify", "--session", session.id]);
    expect(one.out).to.contain("of 1 session").and.to.contain("whole:");
    const { consumers, parked, standing } = JSON.parse((await folder.run(["status", "--json"])).out);
    expect(standing.status).to.equal("whole");
    expect(parked).to.deep.equal([]);
    expect(consumers.map(({ service }: { service: string }) => service)).to.include.members(["brain", "projector"]);
    const seen = Math.max(...consumers.map(({ acknowledged }: { acknowledged: number }) => acknowledged));
    expect(seen).to.be.greaterThan(5);
    expect((await folder.run(["projections", "rebuild", "--check"])).out).to.contain("as a rebuild makes it");
    expect((await folder.run(["projections", "rebuild"])).out).to.match(/^replayed \d+ messages; .* made anew$/m);
    await stop(running);
    const stopped = await folder.run(["ledger", "verify"]);
    expect(stopped.exitCode).to.equal(0);
    expect(stopped.err).to.contain("its embedded servers are started for this command");
    expect((await folder.run(["status"])).out).to.match(/^projector .* 0 of 8 shards$/m);
  });

  it("C138: a start is refused after a loss, until the repair has put it back", async () => {
    const first = await dev();
    const { session } = await createSession(first.server, { title: "lost" });
    await say(first.server, session.id, "$ echo one > file.txt");
    await stop(first);
    const store = join(folder.path, "state", "nats", "jetstream");
    await cp(store, join(folder.path, "older"), { recursive: true });
    const second = await dev();
    await say(second.server, session.id, "$ echo two >> file.txt");
    await stop(second);
    await rm(store, { recursive: true });
    await cp(join(folder.path, "older"), store, { recursive: true });
    const refused = await folder.run(["dev", "--port", "0"]);
    expect(refused.exitCode).to.equal(1);
    expect(refused.err).to.contain("The ledger has lost messages").and.to.contain("pistis ledger repair");
    const verified = await folder.run(["ledger", "verify"]);
    expect(verified.exitCode).to.equal(1);
    expect(verified.out).to.contain(session.id).and.to.contain("missing_in_ledger");
    const planned = await folder.run(["ledger", "repair", "--dry-run"]);
    expect(planned.out).to.match(/^to put back: \d+ messages$/m);
    const unconfirmed = await folder.run(["ledger", "repair"]);
    expect(unconfirmed.err).to.contain("pistis ledger repair --yes");
    const repaired = await folder.run(["ledger", "repair", "--yes"]);
    expect(repaired.exitCode).to.equal(0);
    expect(repaired.out).to.contain("put back").and.to.contain("whole:");
    const third = await dev();
    await say(third.server, session.id, "$ echo three >> file.txt");
    expect((await folder.run(["ledger", "verify"])).exitCode).to.equal(0);
  });

  it("have nothing to look at where there is no install", async () => {
    const { exitCode, err } = await folder.run(["ledger", "verify"]);
    expect(exitCode).to.equal(1);
    expect(err).to.contain("There is no install in").and.to.contain("--state");
  });
});
