import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { createSession, getSession, postMessage, readEvents, type Server } from "../client/api.ts";
import { followSession } from "../client/stream.ts";
import { type Command, type Folder, killAll, newFolder } from "../testing/command.ts";

async function eventsOf(server: Server, session: string): Promise<PistisEvent[]> {
  const { messages } = await readEvents(server, session, 0, 1_000);
  return messages.flatMap(({ events }) => events);
}

/** Resolves when the session's stream holds an event that fits; with all events so far. */
async function untilEvent(
  server: Server,
  session: string,
  fits: (event: PistisEvent) => boolean,
): Promise<PistisEvent[]> {
  const stop = new AbortController();
  const seen: PistisEvent[] = [];
  try {
    for await (const item of followSession(server, session, 0, stop.signal)) {
      if (item.kind !== "ledger") continue;
      seen.push(...item.message.events);
      if (item.message.events.some(fits)) return seen;
    }
  } finally {
    stop.abort();
  }
  throw new Error("The stream ended");
}

/** Resolves when a running command of the session has printed this. */
async function untilOutput(server: Server, session: string, text: string): Promise<void> {
  const stop = new AbortController();
  let output = "";
  try {
    for await (const item of followSession(server, session, 0, stop.signal)) {
      if (item.kind === "live" && item.message.kind === "output") output += item.message.text;
      if (output.includes(text)) return;
    }
  } finally {
    stop.abort();
  }
}

const turnEnds = (count: number) => {
  let seen = 0;
  return (event: PistisEvent) => event.type === "TurnEnded" && ++seen === count;
};

async function say(server: Server, session: string, text: string): Promise<PistisEvent[]> {
  const before = (await eventsOf(server, session)).filter(({ type }) => type === "TurnEnded").length;
  await postMessage(server, session, { text });
  return untilEvent(server, session, turnEnds(before + 1));
}

function lastOutput(events: readonly PistisEvent[]): string {
  const done = events.findLast((event) => event.type === "ToolDone");
  return done?.type === "ToolDone" ? done.data.text : "";
}

describe("pistis dev", function () {
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
    return command.ended;
  }

  beforeEach(async () => {
    folder = await newFolder();
  });
  afterEach(async () => {
    for (const command of started.splice(0)) await killAll(command);
    await folder.remove();
  });

  it("prints its token at the first start only, keeps it private, and stops cleanly on SIGTERM", async () => {
    const first = await dev();
    const secretsFile = join(folder.path, "state", "secrets.json");
    expect((await stat(secretsFile)).mode & 0o777).to.equal(0o600);
    const ended = await stop(first);
    expect(ended.exitCode).to.equal(0);
    expect(ended.out).to.contain(`URL    ${first.server.url}`).and.to.contain(first.server.token);
    const second = await dev();
    const again = await stop(second);
    expect(again.exitCode).to.equal(0);
    expect(again.out).to.contain(secretsFile).and.not.contain(first.server.token);
    const log = await readFile(join(folder.path, "state", "pistis.log"), "utf8");
    for (const secret of Object.values(JSON.parse(await readFile(secretsFile, "utf8"))).filter(
      (it) => typeof it === "string" && it !== "",
    )) {
      expect(log).to.not.contain(secret);
    }
  });

  it("refuses a state folder that another one has, and says who", async () => {
    const first = await dev();
    const second = await folder.run(["dev", "--port", "0"]);
    expect(second.exitCode).to.equal(1);
    expect(second.err).to.contain("is in use by pistis dev").and.to.contain(`process ${first.child.pid}`);
  });

  it("says which key of pistis.json is wrong before it starts anything", async () => {
    await writeFile(join(folder.path, "pistis.json"), '{ "server": { "prot": 1 } }');
    const ended = await folder.run(["dev"]);
    expect(ended.exitCode).to.equal(1);
    expect(ended.err).to.contain("server.prot: unknown key, did you mean port?");
    expect(ended.err).to.not.contain("nats-server");
  });

  it("goes on after a stop: session, messages and the sandbox's files are there", async () => {
    const first = await dev();
    const { session } = await createSession(first.server, { title: "kept" });
    await say(first.server, session.id, "$ echo kept > file.txt");
    await stop(first);
    const second = await dev();
    expect((await getSession(second.server, session.id)).title).to.equal("kept");
    const events = await say(second.server, session.id, "$ cat file.txt");
    expect(lastOutput(events)).to.contain("kept");
    expect(events.filter(({ type }) => type === "MessagePosted")).to.have.length(2);
    expect(events.map(({ type }) => type)).to.include("SandboxRestarted");
  });

  for (const way of ["SIGKILL", "SIGTERM"] as const) {
    it(`runs nothing twice when ${way} hits everything in the middle of a turn (C24)`, async () => {
      const first = await dev();
      const text = "$ echo ran >> runs.txt; echo begun; sleep 1000\n$ echo after >> runs.txt";
      const { session } = await createSession(first.server, { message: { text } });
      await untilOutput(first.server, session.id, "begun");
      if (way === "SIGKILL") await killAll(first);
      else await stop(first);
      const second = await dev();
      const events = await untilEvent(second.server, session.id, turnEnds(1));
      const calls = events.filter(({ type }) => type === "ToolStarted");
      const closed = events.filter(({ type }) => ["ToolDone", "ToolOutcomeUnknown", "ToolNotRun"].includes(type));
      expect(closed.length).to.equal(calls.length);
      const after = await say(second.server, session.id, "$ cat runs.txt");
      expect(lastOutput(after).match(/^ran$/gm)).to.have.length(1);
      expect(after.filter(({ type }) => type === "MessagePosted")).to.have.length(2);
    });
  }
});
