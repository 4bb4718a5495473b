import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { entriesOf, HISTORY_ENTRIES_MAX } from "./history.ts";
import { workplaceOf } from "./questions.ts";
import { evolve, initialState, type Session } from "./session.ts";

const turnId = "trn_1";
const sandboxId = "sbx_1";
const repository = { url: "/srv/app" };
const fold = (...events: PistisEvent[]) => events.reduce<Session>(evolve, initialState);
const opened = (data: object = {}): PistisEvent[] => [
  { type: "SessionCreated", data: { title: "", model: "script", provider: "local", ...data } },
  { type: "MessagePosted", data: { messageId: "msg_1", text: "Go", delivery: "steer" } },
  { type: "TurnStarted", data: { turnId, epoch: 1, brain: "b", messageIds: ["msg_1"] } },
];
const joined = (generation: number, bootId: string): PistisEvent => ({
  type: "SandboxJoined",
  data: { sandboxId, generation, bootId, report: reportPlace(1) },
});
const call: PistisEvent[] = [
  {
    type: "ModelReplied",
    data: {
      turnId,
      replyId: "rpl_1",
      model: "m",
      content: [{ type: "tool-call", callId: "cal_1", modelCallId: "1", tool: "bash", input: {} }],
      finishReason: "tool-calls",
      usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 },
      costUsd: 0.25,
      requestMs: 1,
    },
  },
  { type: "ToolStarted", data: { turnId, callId: "cal_1", tool: "bash", epoch: 1, sandboxId } },
];

function workingOf(session: Session) {
  if (session.status !== "working") throw new Error(`The session is ${session.status}`);
  return session;
}

function noticesOf(session: Session): string[] {
  if (session.status !== "working") return [];
  return entriesOf(session.history).flatMap((entry) => (entry.kind === "notice" ? [entry.text] : []));
}

describe("a session", () => {
  it("counts the steps and the cost of its turn", () => {
    const { turn } = workingOf(fold(...opened(), ...call));
    expect(turn).to.deep.include({ steps: 1, costUsd: 0.25 });
    expect(turn.calls[0]).to.deep.include({ callId: "cal_1", status: "started" });
  });

  it("keeps the history of a session without end within bounds: the first message and the newest turns", () => {
    const turns = HISTORY_ENTRIES_MAX / 2;
    let session = fold(...opened());
    let longest = 0;
    for (let index = 0; index < turns; index++) {
      const messageId = `msg_n${index}`;
      const events: PistisEvent[] = [
        { type: "TurnEnded", data: { turnId, reason: "completed" } },
        { type: "MessagePosted", data: { messageId, text: `Message ${index}`, delivery: "steer" } },
        { type: "TurnStarted", data: { turnId, epoch: index + 2, brain: "b", messageIds: [messageId] } },
        ...call,
      ];
      session = events.reduce<Session>(evolve, session);
      longest = Math.max(longest, workingOf(session).history?.length ?? 0);
    }
    const entries = entriesOf(workingOf(session).history);
    expect(longest).to.be.lessThan(HISTORY_ENTRIES_MAX + 10);
    expect(entries[0]).to.deep.include({ kind: "message", text: "Go" });
    expect(entries.slice(1, 3).map(({ kind }) => kind)).to.deep.equal(["notice", "ended"]);
    expect(entries.at(-2)).to.deep.include({ kind: "message", text: `Message ${turns - 1}` });
  });

  it("ignores a Stop that was meant for an earlier turn", () => {
    const late: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_0" } };
    expect(workingOf(fold(...opened(), late)).turn.interruptRequested).to.equal(false);
  });

  it("C13: tells the model that its sandbox was replaced or restarted, once it had worked there", () => {
    expect(noticesOf(fold(...opened(), joined(1, "a"), joined(2, "b")))).to.deep.equal([]);
    const used = [...opened(), joined(1, "a"), ...call];
    expect(noticesOf(fold(...used, joined(2, "b")))[0]).to.contain("replaced");
    expect(noticesOf(fold(...used, joined(1, "b")))[0]).to.contain("restarted");
    expect(noticesOf(fold(...used, joined(1, "a")))).to.deep.equal([]);
  });

  it("ignores what is said late about a sandbox that was replaced", () => {
    const late: PistisEvent = { type: "SandboxMissing", data: { sandboxId, generation: 1 } };
    expect(workingOf(fold(...opened(), joined(2, "b"), late)).sandbox.status).to.equal("up");
  });

  it("is ready for commands when its sandbox joined, its network is closed and the repository is in this very one", () => {
    const probed = (generation: number, passed = true): PistisEvent => {
      const findings = [{ target: "a host", expected: "closed" as const, outcome: "answered" as const, ok: passed }];
      return { type: "EgressProbed", data: { sandboxId, generation, passed, findings, durationMs: 0 } };
    };
    const copied = (generation: number): PistisEvent => ({
      type: "RepositoryCopied",
      data: { sandboxId, generation, commit: null, branch: null, bundleBytes: 0, shallow: false, durationMs: 0 },
    });
    const statusAfter = (...events: PistisEvent[]) =>
      workplaceOf(workingOf(fold(...opened({ repository }), ...events))).status;
    expect(statusAfter()).to.equal("needed");
    expect(statusAfter(joined(1, "a"))).to.equal("waiting");
    expect(statusAfter(joined(1, "a"), copied(1))).to.equal("waiting");
    expect(statusAfter(joined(1, "a"), probed(1), copied(1))).to.equal("ready");
    expect(statusAfter(joined(1, "a"), probed(1), copied(1), joined(1, "b"))).to.equal("ready");
    expect(statusAfter(joined(1, "a"), probed(1), copied(1), joined(2, "b"))).to.equal("waiting");
    expect(statusAfter(joined(1, "a"), probed(1, false), copied(1))).to.equal("failed");
    const failure = { code: "clone_failed", message: "No such repository" };
    const failed: PistisEvent = { type: "RepositoryCopyFailed", data: { sandboxId, generation: 1, failure } };
    expect(statusAfter(joined(1, "a"), probed(1), failed)).to.equal("failed");
  });

  it("folds a long conversation without copying it", () => {
    const reply = call[0];
    if (reply === undefined) throw new Error("No reply");
    const many = Array.from({ length: 20_000 }, () => reply);
    expect(entriesOf(workingOf(fold(...opened(), ...many)).history)).to.have.length(20_001);
  });
});
