import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Retryable } from "#shared/errors/errors.ts";
import type { Ledger } from "#shared/ledger/ledger.ts";
import type { OpenLink } from "#shared/sandbox-link/link.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { World } from "../testing/world.ts";

/** A command that says when it runs and ends when the file `go` appears, so that no test has to guess a time. */
const UNTIL_GO = "$ echo waiting; while [ ! -e go ]; do sleep 0.02; done; echo went on";

describe("a turn", () => {
  let world: World;
  afterEach(() => world.close());

  const typesOf = (events: PistisEvent[]) => events.map(({ type }) => type);

  async function running(text: string, options = {}) {
    world = new World(options);
    await world.startBrain();
    const session = await world.createSession();
    await world.post(session, text);
    return session;
  }

  /** Waits until a command's output was seen live, so it runs. */
  async function heard(text: string): Promise<void> {
    await new Promise<void>((resolve) => {
      world.onLive = (message) => {
        if (message.kind === "output" && message.text.includes(text)) resolve();
      };
    });
  }

  /** Lets nothing leave between the start of a call and its sending before `meanwhile` has happened. */
  function afterStarted(meanwhile: (session: string) => Promise<void>): (ledger: Ledger) => Ledger {
    let done = false;
    return (ledger) => ({
      read: (...args) => ledger.read(...args),
      append: async (session, expected, events, cause) => {
        const appended = await ledger.append(session, expected, events, cause);
        if (!done && events.some(({ type }) => type === "ToolStarted")) {
          done = true;
          await meanwhile(session);
        }
        return appended;
      },
    });
  }

  it("says that a call did not run when its sandbox failed after its start was stored and before it was sent", async () => {
    world = new World({ schedules: false });
    const failure = { code: "disk_full", message: "No space", next: "Make room" };
    const through = afterStarted(async (session) => {
      const { sandboxId } = (await world.first(session, "SandboxJoined")).data;
      await world.append("scheduler", session, {
        type: "SandboxFailed",
        data: { sandboxId, generation: 1, failure },
      });
    });
    await world.startBrain("brain-a", { through });
    const session = await world.createSession();
    await world.joinSandbox(session);
    await world.post(session, "$ true");
    expect((await world.first(session, "TurnEnded")).data).to.deep.include({ reason: "failed", failure });
    expect((await world.first(session, "ToolNotRun")).data.reason).to.equal("not_sent");
    expect(typesOf(await world.events(session))).not.to.include("ToolOutcomeUnknown");
  });

  it("C140: a ledger that fails in the middle of a turn loses nothing and repeats nothing", async () => {
    world = new World();
    let fails = 1;
    const failing = (ledger: Ledger): Ledger => ({
      read: (...args) => ledger.read(...args),
      append: async (session, expected, events, cause) => {
        if (events.some(({ type }) => type === "ToolDone") && fails-- > 0) {
          throw new Retryable("ledger_unreachable", "No answer", { retryAfterMs: 10 });
        }
        return ledger.append(session, expected, events, cause);
      },
    });
    await world.startBrain("brain-a", { through: failing });
    const session = await world.createSession();
    await world.post(session, "$ echo once >> log\n$ cat log");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("completed");
    expect((await world.first(session, "ToolDone", 1)).data.text).to.equal("once\n[Exit code 0.]");
    expect(typesOf(await world.events(session)).filter((type) => type === "TurnTakenOver")).to.have.length(1);
  });

  it("stores a reply and the start of all its reading calls in one append, and runs them side by side", async () => {
    const session = await running("> write a.txt\n```\nA\n```\n> read a.txt\n& > list .\n& > search A");
    await world.first(session, "TurnEnded");
    const { messages } = await world.ledger.open("brain").read(session);
    const reply = messages.find(({ events }) => events.filter(({ type }) => type === "ToolStarted").length > 1);
    expect(typesOf([...(reply?.events ?? [])])).to.deep.equal([
      "ModelReplied",
      "ToolStarted",
      "ToolStarted",
      "ToolStarted",
    ]);
    expect((await world.first(session, "ToolDone", 1)).data.text).to.be.a("string");
  });

  it("runs calls of one reply in order when one of them changes something", async () => {
    const session = await running("$ echo one >> log\n& $ echo two >> log\n& > read log");
    expect((await world.first(session, "ToolDone", 2)).data.text).to.equal("1\tone\n2\ttwo");
    const calls = (await world.events(session)).filter(({ type }) => type.startsWith("Tool"));
    expect(typesOf(calls)).to.deep.equal(Array(3).fill(["ToolStarted", "ToolDone"]).flat());
  });

  it("C63: Stop ends the running command, starts no other, and ends the turn", async () => {
    const session = await running("$ echo waiting; sleep 1000\n& $ echo never\n$ echo never either");
    await heard("waiting");
    await world.interrupt(session);
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
    const events = await world.events(session);
    expect(events.filter(({ type }) => type === "ToolStarted")).to.have.length(1);
    expect((await world.first(session, "ToolDone")).data.outcome).to.deep.equal({ status: "stopped" });
    expect(events.filter(({ type }) => type === "ToolNotRun")).to.have.length(1);
  });

  it("C67: a message that waited through Stop is delivered with the next one", async () => {
    const session = await running("$ echo waiting; sleep 1000");
    await heard("waiting");
    await world.post(session, "$ echo queued", "queue");
    await world.interrupt(session);
    await world.first(session, "TurnEnded");
    await world.post(session, "$ echo new");
    expect((await world.first(session, "TurnStarted", 1)).data.messageIds).to.have.length(2);
    expect((await world.first(session, "ToolDone", 1)).data.text).to.contain("queued");
    expect((await world.first(session, "ToolDone", 2)).data.text).to.contain("new");
  });

  it("C68: Stop with an unreachable sandbox closes the call as unknown within its bound", async () => {
    const session = await running("$ echo waiting; sleep 1000");
    await heard("waiting");
    (await world.peerOf(session)).goOffline();
    await world.interrupt(session);
    expect((await world.first(session, "ToolOutcomeUnknown")).data.reason).to.equal("stop_unconfirmed");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
  });

  it("C68: tells what Stop could not reach to stop, as soon as the sandbox answers again", async () => {
    const session = await running("$ echo waiting; sleep 1000");
    await heard("waiting");
    const peer = await world.peerOf(session);
    const { callId } = (await world.first(session, "ToolStarted")).data;
    peer.goOffline();
    await world.interrupt(session);
    await world.first(session, "TurnEnded");
    peer.giveUp("unreachable");
    peer.comeBack();
    await world.post(session, "$ echo new");
    await world.first(session, "TurnEnded", 1);
    expect((await peer.calls.get(callId)?.process?.ended)?.outcome.status).to.equal("stopped");
  });

  it("closes a call as soon as the provider says that the sandbox's processes are gone", async () => {
    const session = await running("$ echo waiting; sleep 1000\n$ echo after");
    await heard("waiting");
    const peer = await world.peerOf(session);
    peer.goOffline();
    const sandbox = { sandboxId: peer.sandboxId, generation: 1 };
    await world.append("scheduler", session, { type: "SandboxStopped", data: { ...sandbox, reason: "crash" } });
    expect((await world.first(session, "ToolOutcomeUnknown")).data.reason).to.equal("sandbox_restarted");
    expect((await world.first(session, "SandboxNeeded", 1)).data.reason).to.equal("stopped");
    expect((await world.first(session, "ToolDone")).data.text).to.contain("after");
  });

  it("gives a steering message to the model at its next step, and a queued one to the next turn", async () => {
    const session = await running(UNTIL_GO);
    await heard("waiting");
    const queued = await world.post(session, "$ echo queued", "queue");
    const steering = await world.post(session, "$ echo steered", "steer");
    await (await world.peerOf(session)).touch("go");
    expect((await world.first(session, "MessagesDelivered")).data.messageIds).to.deep.equal([steering]);
    expect((await world.first(session, "TurnStarted", 1)).data.messageIds).to.deep.equal([queued]);
    await world.first(session, "TurnEnded", 1);
  });

  it("ends the session in the middle of a turn when it is asked to", async () => {
    const session = await running("$ echo waiting; sleep 1000");
    await heard("waiting");
    await world.append("gateway", session, { type: "SessionEndRequested", data: {} });
    await world.first(session, "SessionEnded");
    expect((await world.first(session, "TurnEnded")).data.reason).to.equal("interrupted");
  });

  it("ends an idle session when it is asked to", async () => {
    const session = await running("> say hello");
    await world.first(session, "TurnEnded");
    await world.append("gateway", session, { type: "SessionEndRequested", data: {} });
    await world.first(session, "SessionEnded");
  });

  it("fails with the sandbox's own reason and next step", async () => {
    world = new World({ schedules: false });
    await world.startBrain();
    const session = await world.createSession();
    await world.post(session, "$ true");
    await world.first(session, "SandboxNeeded");
    const failure = { code: "bwrap_missing", message: "There is no bubblewrap", next: "Install it" };
    const sandbox = { sandboxId: "sbx_1", generation: 1 };
    await world.append("scheduler", session, { type: "SandboxFailed", data: { ...sandbox, failure } });
    expect((await world.first(session, "TurnEnded")).data).to.deep.include({ reason: "failed", failure });
    expect(typesOf(await world.events(session))).to.include("ToolNotRun");
  });

  it("C43: does not wait for ever for a sandbox that never joins", async () => {
    const session = await running("$ true", { schedules: false, config: { sandboxes: { startMs: 1_000 } } });
    expect((await world.first(session, "TurnEnded")).data.failure?.code).to.equal("sandbox_start_timeout");
  });

  it("waits for the repository before its first command, while the model already works", async () => {
    world = new World();
    await world.startBrain();
    const session = await world.createSession({ repository: { url: "/srv/app" } });
    await world.post(session, "$ pwd");
    const peer = await world.peerOf(session);
    await world.first(session, "ModelReplied");
    await peer.makeFolder("repo");
    const { sandboxId } = peer;
    await world.append("publisher", session, {
      type: "RepositoryCopied",
      data: { sandboxId, generation: 1, commit: null, branch: null, bundleBytes: 0, shallow: false, durationMs: 1 },
    });
    expect((await world.first(session, "ToolDone")).data.text).to.contain("/repo");
  });

  it("keeps the link to the sandbox for the next turn, under that turn's epoch", async () => {
    world = new World();
    let opened = 0;
    const openLink: OpenLink = (request) => {
      opened++;
      return world.openLink(request);
    };
    await world.startBrain("brain-a", { openLink });
    const session = await world.createSession();
    for (const turn of [0, 1, 2]) {
      await world.post(session, "$ true");
      await world.first(session, "TurnEnded", turn);
    }
    const execs = (await world.peerOf(session)).received.filter(({ op }) => op === "exec");
    expect(execs.map(({ epoch }) => epoch)).to.deep.equal([1, 2, 3]);
    expect(opened).to.equal(1);
  });

  it("C20: closes a call as unknown when the sandbox is lost, asks for help and goes on in the new one", async () => {
    const session = await running(`${UNTIL_GO}\n$ echo after`, { config: { recovery: { reattachMs: 50 } } });
    await heard("waiting");
    const peer = await world.peerOf(session);
    peer.goOffline();
    peer.giveUp("unreachable");
    expect((await world.first(session, "ToolOutcomeUnknown")).data.text).to.contain("may have partly or fully run");
    expect((await world.first(session, "ToolDone")).data.text).to.contain("after");
    expect((await world.first(session, "SandboxNeeded", 1)).data.reason).to.equal("unreachable");
  });

  it("sends nothing to a sandbox that was started again before the ledger says so", async () => {
    const session = await running("$ true");
    await world.first(session, "TurnEnded");
    const peer = await world.peerOf(session);
    peer.restart("boot-2");
    const greetings = () => peer.received.filter(({ op }) => op === "hello").length;
    const before = greetings();
    await world.post(session, "$ echo again");
    while (greetings() < before + 2) await new Promise(setImmediate);
    await world.append("scheduler", session, {
      type: "SandboxJoined",
      data: { sandboxId: peer.sandboxId, generation: 1, bootId: "boot-2", report: reportPlace(2) },
    });
    expect((await world.first(session, "ToolDone", 1)).data.text).to.contain("again");
    const types = (await world.events(session)).map(({ type }) => type);
    expect(types).not.to.include.members(["ToolOutcomeUnknown"]).and.not.to.include.members(["ToolNotRun"]);
    expect(types.lastIndexOf("ToolStarted")).to.be.above(types.lastIndexOf("SandboxJoined"));
  });

  it("stops at its limit of steps and says which key raises it", async () => {
    const session = await running("$ true\n$ true\n$ true", { config: { limits: { stepsPerTurnMax: 2 } } });
    const { reason, failure } = (await world.first(session, "TurnEnded")).data;
    expect(reason).to.equal("limit");
    expect(failure?.next).to.contain("limits.stepsPerTurnMax");
  });

  it("fails when its model is not configured", async () => {
    world = new World();
    await world.startBrain();
    const session = await world.createSession({ model: "no-such" });
    await world.post(session, "Hello");
    expect((await world.first(session, "TurnEnded")).data.failure?.code).to.equal("model_unknown");
  });
});
