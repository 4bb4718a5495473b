import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { pistisConfig } from "#schemas/config/pistis-config.ts";
import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Ledger, LedgerMessage } from "#shared/ledger/ledger.ts";
import { type MemoryLedger, memoryLedger } from "#shared/ledger/memory.ts";
import { silentLog } from "#shared/service/log.ts";
import type { RunningService } from "#shared/service/service.ts";
import { appendMany, causeOf, lastOf, versionOf } from "#shared/testing/messages.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { startPublisher } from "./publisher.ts";
import { type FolderSandbox, folderSandbox, lost } from "./testing/folder-link.ts";
import { commit, newRepository, tempFolder } from "./testing/repositories.ts";

describe("the publisher", () => {
  let temp: ReturnType<typeof tempFolder>;
  let source: string;
  let sandbox: FolderSandbox;
  let ledger: MemoryLedger;
  let live: LiveMessage[];
  let running: RunningService[];
  const session = newId("session");
  const about = { sandboxId: newId("sandbox"), generation: 1 };

  beforeEach(() => {
    temp = tempFolder();
    source = newRepository(join(temp.path, "source"));
    mkdirSync(join(temp.path, "workspace"));
    sandbox = folderSandbox(join(temp.path, "workspace"));
    ledger = memoryLedger();
    live = [];
    running = [];
  });
  afterEach(async () => {
    for (const service of running) await service.close();
    temp.remove();
  });

  async function start(own: Ledger = ledger.open("publisher")): Promise<RunningService> {
    const service = await startPublisher({
      ledger: own,
      feed: ledger.feed,
      openLink: () => sandbox.link,
      live: { publish: (_session, message) => void live.push(message) },
      config: pistisConfig.parse({}).git,
      stateDir: join(temp.path, "state"),
      log: silentLog,
    });
    running.push(service);
    return service;
  }

  async function append(writer: Writer, ...events: PistisEvent[]): Promise<void> {
    const { version } = await ledger.open(writer).read(session);
    await ledger.open(writer).append(session, version, events, causeOf(session));
  }

  async function outcome(after: number | "now" = 0): Promise<PistisEvent> {
    const over = new AbortController();
    for await (const message of ledger.feed.follow({ after, session, signal: over.signal })) {
      if (message.writer !== "publisher") continue;
      over.abort();
      return eventOf(message);
    }
    throw new Error("The feed ended");
  }

  const created = (url: string): PistisEvent => ({
    type: "SessionCreated",
    data: { title: "", model: "script", provider: "local", repository: { url } },
  });
  const joined = (bootId: string): PistisEvent => ({
    type: "SandboxJoined",
    data: { ...about, bootId, report: reportPlace(1) },
  });

  const probed = (passed = true): PistisEvent => {
    const findings = [{ target: "a host", expected: "closed" as const, outcome: "answered" as const, ok: passed }];
    return { type: "EgressProbed", data: { ...about, passed, findings, durationMs: 1 } };
  };

  it("C117: shows nothing to a sandbox whose network was not found closed", async () => {
    const head = commit(source, { "a.txt": "a\n" });
    const service = await start();
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"));
    await append("scheduler", probed(false));
    await service.close();
    expect(sandbox.commands).to.deep.equal([]);
    await start();
    await append("scheduler", probed());
    expect(await outcome()).to.have.nested.property("data.commit", head);
  });

  it("S53: copies the repository in when the sandbox joins, and tells how far it is", async () => {
    const head = commit(source, { "a.txt": "a\n" });
    await start();
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    expect(await outcome())
      .to.deep.include({ type: "RepositoryCopied" })
      .with.nested.property("data.commit", head);
    expect(existsSync(join(temp.path, "workspace/repo/a.txt"))).to.equal(true);
    expect(new Set(live.map((message) => message.kind === "progress" && message.step))).to.include("repository-unpack");
    expect(live.map(({ number }) => number)).to.deep.equal(live.map((_, index) => index));
  });

  it("goes on at its next start with what it was doing when it stopped", async () => {
    commit(source, { "a.txt": "a\n" });
    const first = await start();
    const reached = new Promise<void>((resolve) => {
      sandbox.before.call = () => {
        resolve();
        lost();
      };
    });
    const closing = reached.then(() => first.close());
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    await closing;
    expect((await ledger.open("publisher").read(session)).messages.map(({ writer }) => writer)).to.not.include(
      "publisher",
    );
    sandbox.before.call = () => undefined;
    await start();
    expect((await outcome()).type).to.equal("RepositoryCopied");
  });

  it("asks for a session again that it could not note", async () => {
    const failed = Promise.withResolvers<void>();
    const say = () => failed.resolve();
    ledger = memoryLedger({ ...silentLog, warn: say, error: say });
    commit(source, { "a.txt": "a\n" });
    await start();
    const wanted = join(temp.path, "state", "wanted");
    rmdirSync(wanted);
    writeFileSync(wanted, "");
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    await failed.promise;
    rmSync(wanted);
    mkdirSync(wanted);
    expect((await outcome()).type).to.equal("RepositoryCopied");
  });

  it("records a failure with its next step, and tries again when a turn starts", async () => {
    await start();
    await append("gateway", created(join(temp.path, "later")));
    await append("scheduler", joined("boot1"), probed());
    const failed = await outcome();
    expect(failed).to.have.nested.property("data.failure.code", "repository_not_found");
    expect(failed).to.have.nested.property("data.failure.next");
    commit(newRepository(join(temp.path, "later")), { "a.txt": "a\n" });
    const again = outcome("now");
    await append("brain", {
      type: "TurnStarted",
      data: { turnId: newId("turn"), epoch: 1, brain: "b", messageIds: [newId("message")] },
    });
    expect((await again).type).to.equal("RepositoryCopied");
  });

  it("does nothing again for a sandbox that was restarted with its disk", async () => {
    commit(source, { "a.txt": "a\n" });
    const service = await start();
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    await outcome();
    const commands = sandbox.commands.length;
    await append("scheduler", joined("boot2"));
    await service.close();
    await (await start()).close();
    expect(sandbox.commands.length).to.equal(commands);
    expect(readdirSync(join(temp.path, "state", "wanted"))).to.deep.equal([]);
  });

  it("reads nothing when a turn starts in a session that has nothing to copy", async () => {
    commit(source, { "a.txt": "a\n" });
    const own = ledger.open("publisher");
    const reads: string[] = [];
    const read: Ledger["read"] = (asked, after) => {
      reads.push(asked);
      return own.read(asked, after);
    };
    await start({ ...own, read });
    const other = newId("session");
    const [first] = await appendMany(ledger.open("gateway"), other, 1);
    const turn = { turnId: newId("turn"), epoch: 1, brain: "b", messageIds: [newId("message")] };
    const started: PistisEvent = { type: "TurnStarted", data: turn };
    await ledger.open("brain").append(other, versionOf(lastOf([first])), [started], causeOf(other));
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    await outcome();
    expect(new Set(reads)).to.deep.equal(new Set([session]));
  });

  it("says when the sandbox went away under it", async () => {
    commit(source, { "a.txt": "a\n" });
    sandbox.before.call = () => lost();
    await start();
    await append("gateway", created(source));
    await append("scheduler", joined("boot1"), probed());
    expect(await outcome()).to.have.nested.property("data.failure.code", "sandbox_lost");
  });
});

function eventOf(message: LedgerMessage): PistisEvent {
  const [event] = message.events;
  if (event === undefined) throw new Error("A message without an event");
  return event;
}
