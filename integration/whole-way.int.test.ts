// From a person's message to a deleted sandbox, as a user of the HTTP API sees it, with a model that is reached over
// its real wire format.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { pathTo } from "#schemas/api/paths.ts";
import { type ModelServer, type ServedCall, startModelServer } from "#services/brain/testing/model-server.ts";
import { getSession } from "#services/cli/client/api.ts";
import { type FollowedSession, openTestInstall, openTestSession, type TestInstall } from "./testing/running-install.ts";

const run = promisify(execFile);
const git = (cwd: string, ...args: string[]) =>
  run("git", ["-c", "user.email=a@example.com", "-c", "user.name=a", ...args], { cwd });

describe("the whole way", () => {
  let models: ModelServer;
  let install: TestInstall;
  let session: FollowedSession;
  let repository: string;
  const replies: (readonly ServedCall[])[] = [];

  before(async () => {
    repository = await mkdtemp(join(tmpdir(), "pistis-source-"));
    await git(repository, "init", "-q", "-b", "main");
    await writeFile(join(repository, "greeting.txt"), "hello\n");
    await git(repository, "add", ".");
    await git(repository, "commit", "-qm", "First");
    models = await startModelServer(() => {
      const calls = replies.shift();
      return calls === undefined ? { kind: "reply", text: "All done." } : { kind: "reply", calls };
    });
    install = await openTestInstall({
      models: {
        served: {
          api: "anthropic",
          model: "served",
          apiKey: "a-key-of-the-test",
          baseUrl: models.url,
          price: { inputPerMillion: 3, outputPerMillion: 15 },
        },
      },
      defaultModel: "served",
    });
    session = await openTestSession(install.server, { repository: { url: repository } });
  });
  after(async () => {
    await session.close();
    await install.close();
    await models.close();
    await rm(repository, { recursive: true, force: true });
  });

  const get = (path: string) =>
    fetch(new URL(path, install.server.url), { headers: { authorization: `Bearer ${install.server.token}` } });

  it("works on a real repository with every kind of tool, and records each step", async () => {
    replies.push(
      [
        { id: "a", name: "read", input: { path: "greeting.txt" } },
        { id: "b", name: "list", input: { path: "." } },
      ],
      [{ id: "c", name: "edit", input: { path: "greeting.txt", edits: [{ old: "hello", new: "good day" }] } }],
      [{ id: "d", name: "write", input: { path: "src/new.txt", content: "new\n" } }],
      [{ id: "e", name: "search", input: { pattern: "good" } }],
      [{ id: "f", name: "bash", input: { command: "git remote -v; git status --short; git diff" } }],
    );
    await session.post("Make the greeting more polite.");
    expect(await session.event("TurnEnded")).to.deep.include({ reason: "completed" });
    const texts = session.seen("ToolDone").map(({ text }) => text);
    expect(texts).to.have.length(6);
    // Those that only read run side by side.
    expect(texts.slice(0, 2).join("\n")).to.include("hello");
    expect(texts.at(-2)).to.include("greeting.txt");
    expect(texts.at(-1)).to.include("+good day").and.to.include("?? src/").and.to.not.include(repository);
    const [reply] = session.seen("ModelReplied");
    expect(reply?.costUsd).to.be.greaterThan(0);
  });

  it("I1: stores every start before its result, in one unbroken chain of hashes", () => {
    const order = session.messages.flatMap(({ events }) => events.map(({ type }) => type));
    expect(order.indexOf("RepositoryCopied")).to.be.lessThan(order.indexOf("ToolStarted"));
    expect(order.filter((type) => type === "ToolStarted")).to.have.length(6);
    for (const [index, message] of session.messages.entries()) {
      expect(message.prev).to.equal(index === 0 ? "" : session.messages[index - 1]?.hash);
    }
  });

  it("hands out a file and the output of a call", async () => {
    const sessionId = session.id;
    const file = await get(pathTo("fileContent", { sessionId }, { path: "repo/src/new.txt" }));
    expect(await file.text()).to.equal("new\n");
    const callId = session.seen("ToolDone").at(-1)?.callId ?? "";
    const output = await get(pathTo("callOutput", { sessionId, callId }, { from: 0, length: 1_000 }));
    expect(await output.text()).to.include("+good day");
  });

  it("gives a steering message to the model in the middle of the turn", async () => {
    const asked = models.requests.length;
    replies.push([{ id: "g", name: "bash", input: { command: "until [ -e /workspace/go ]; do sleep 0.05; done" } }]);
    replies.push([{ id: "h", name: "bash", input: { command: "true" } }]);
    const started = session.seen("ToolStarted").length;
    await session.post("Wait for the file.");
    await session.event("ToolStarted", started + 1);
    await session.post("And be quick about it.");
    await run("touch", [join(await workspaceOf(install, session), "go")]);
    await session.event("TurnEnded", 2);
    expect(session.seen("MessagesDelivered")).to.have.length(1);
    const bodies = models.requests.slice(asked).map(({ body }) => JSON.stringify(body));
    expect(bodies[0]).to.not.include("And be quick about it.");
    expect(bodies.at(-1)).to.include("And be quick about it.");
  });

  it("S24: deletes the sandbox for good when the session ends", async () => {
    const folder = await workspaceOf(install, session);
    await session.end();
    await session.event("SandboxDestroyed");
    expect(await run("ls", [folder]).catch(({ code }: { code: number }) => code)).to.equal(2);
    expect(await getSession(install.server, session.id)).to.deep.include({ status: "ended" });
  });
});

async function workspaceOf(install: TestInstall, session: FollowedSession): Promise<string> {
  const { sandboxId } = await session.event("SandboxJoined");
  const { stdout } = await run("find", [install.statePath, "-type", "d", "-path", `*${sandboxId}*/workspace`]);
  return stdout.trim();
}
