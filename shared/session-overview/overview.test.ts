import { expect } from "chai";
import { type SessionDetail, sessionDetail } from "#schemas/api/session.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { evolveOverview } from "./overview.ts";

const at = "2030-01-01T00:00:00.000Z";
const sandbox = { sandboxId: "sbx_1", generation: 1 };
const created: PistisEvent = {
  type: "SessionCreated",
  data: { title: "Fix it", model: "script", provider: "local", repository: { url: "/srv/api", ref: "main" } },
};
const posted = (messageId: string, text = "hello"): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text, delivery: "steer" },
});
const started: PistisEvent = {
  type: "TurnStarted",
  data: { turnId: "trn_1", epoch: 1, brain: "b1", messageIds: ["msg_1"] },
};
const ended: PistisEvent = { type: "TurnEnded", data: { turnId: "trn_1", reason: "completed" } };
const replied = (costUsd: number | null): PistisEvent => ({
  type: "ModelReplied",
  data: {
    turnId: "trn_1",
    replyId: "rpl_1",
    model: "script",
    content: [],
    finishReason: "stop",
    usage: { inputTokens: 10, outputTokens: 5, cachedInputTokens: 2 },
    costUsd,
    requestMs: 1,
  },
});

function given(...events: PistisEvent[]): SessionDetail {
  const session = events.reduce<SessionDetail | undefined>(
    (state, event, index) => evolveOverview(state, { session: "ses_1", at, sequence: index + 1, events: [event] }),
    undefined,
  );
  return sessionDetail.parse(session);
}

describe("a session's overview", () => {
  it("does not exist before the session does", () => {
    expect(evolveOverview(undefined, { session: "ses_1", at, sequence: 1, events: [started] })).to.equal(undefined);
  });

  it("starts idle, with what the session was opened with", () => {
    expect(given(created)).to.deep.include({
      title: "Fix it",
      repository: { url: "/srv/api", ref: "main" },
      status: "idle",
      lastSequence: 1,
      sandbox: { state: "absent", sandboxId: null, generation: 0 },
    });
  });

  it("queues a message until a turn takes it, the model gets it, or it is withdrawn", () => {
    expect(given(created, posted("msg_1"), posted("msg_2"))).to.include({ queuedMessages: 2, status: "idle" });
    expect(given(created, posted("msg_1"), started)).to.include({ queuedMessages: 0, status: "running" });
    const delivered: PistisEvent = { type: "MessagesDelivered", data: { turnId: "trn_1", messageIds: ["msg_2"] } };
    expect(given(created, posted("msg_1"), started, posted("msg_2"), delivered).queue).to.deep.equal([]);
    const withdrawn: PistisEvent = { type: "MessageWithdrawn", data: { messageId: "msg_1" } };
    expect(given(created, posted("msg_1"), withdrawn)).to.deep.include({
      queuedMessages: 0,
      counts: { turns: 0, messages: 1, replies: 0, toolCalls: 0 },
    });
  });

  it("is idle again after the turn and says how it ended", () => {
    expect(given(created, posted("msg_1"), started, ended)).to.deep.include({
      status: "idle",
      openTurnId: null,
      lastTurn: { turnId: "trn_1", reason: "completed" },
    });
  });

  it("is ending once that was asked for, also while a turn is open, and ended in the end", () => {
    const asked: PistisEvent = { type: "SessionEndRequested", data: {} };
    expect(given(created, posted("msg_1"), started, asked, ended).status).to.equal("ending");
    expect(given(created, asked, { type: "SessionEnded", data: {} }).status).to.equal("ended");
  });

  it("C67: says that Stop holds what waits, until the user writes again", () => {
    const stop: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_1" } };
    const stopped = [created, posted("msg_1"), started, posted("msg_2"), stop];
    expect(given(...stopped)).to.include({ queueHeld: true, queuedMessages: 1 });
    expect(given(...stopped, ended)).to.include({ queueHeld: true, queuedMessages: 1, status: "idle" });
    expect(given(...stopped, ended, posted("msg_3"))).to.include({ queueHeld: false, queuedMessages: 2 });
    const late: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_0" } };
    expect(given(created, posted("msg_1"), started, late).queueHeld).to.equal(false);
  });

  it("counts what a summary of the conversation cost", () => {
    const usage = { inputTokens: 7, outputTokens: 3, cachedInputTokens: 0 };
    const compaction = { kind: "summarized", uptoReplyId: "rpl_1", summary: "s", usage, costUsd: 0.5 } as const;
    const summarized: PistisEvent = {
      type: "HistoryCompacted",
      data: { turnId: "trn_1", compaction, tokensBefore: 9, tokensAfter: 1 },
    };
    expect(given(created, summarized)).to.deep.include({ usage, costUsd: 0.5 });
  });

  it("adds up tokens and cost, and says when a price is not known", () => {
    expect(given(created, replied(0.25), replied(0.5))).to.deep.include({
      usage: { inputTokens: 20, outputTokens: 10, cachedInputTokens: 4 },
      costUsd: 0.75,
      costComplete: true,
    });
    expect(given(created, replied(0.25), replied(null))).to.include({ costUsd: 0.25, costComplete: false });
  });

  it("follows the sandbox: running only once pistisd has joined", () => {
    const asked: PistisEvent = {
      type: "SandboxCreateRequested",
      data: { ...sandbox, provider: "local", taskId: "tsk_1", network: { mode: "none" } },
    };
    const made: PistisEvent = { type: "SandboxCreated", data: { ...sandbox, durationMs: 5 } };
    const joined: PistisEvent = { type: "SandboxJoined", data: { ...sandbox, bootId: "b", report: reportPlace(1) } };
    const stopped: PistisEvent = { type: "SandboxStopped", data: { ...sandbox, reason: "exited" } };
    expect(given(created, asked, made).sandbox.state).to.equal("starting");
    expect(given(created, asked, made, joined).sandbox).to.deep.equal({ state: "running", ...sandbox });
    expect(given(created, asked, made, joined, stopped).sandbox.state).to.equal("stopped");
  });

  it("C117: says that a sandbox's network is open, until a probe of it passed", () => {
    const joined: PistisEvent = { type: "SandboxJoined", data: { ...sandbox, bootId: "b", report: reportPlace(1) } };
    const probed = (passed: boolean): PistisEvent => {
      const findings = [{ target: "a host", expected: "closed" as const, outcome: "answered" as const, ok: passed }];
      return { type: "EgressProbed", data: { ...sandbox, passed, findings, durationMs: 5 } };
    };
    expect(given(created, joined, probed(false)).sandbox).to.deep.equal({ state: "exposed", ...sandbox });
    expect(given(created, joined, probed(false), probed(true)).sandbox.state).to.equal("running");
  });

  it("holds no text that PostgreSQL refuses", () => {
    const odd: PistisEvent = { type: "SessionCreated", data: { title: "a\0b\ud800", model: "m", provider: "local" } };
    const session = given(odd, posted("msg_1", `${"x".repeat(499)}\u{1F600}\0`));
    expect(session.title).to.equal("a\uFFFDb\uFFFD");
    expect(session.queue[0]?.excerpt.isWellFormed()).to.equal(true);
    expect(session.queue[0]?.excerpt).to.have.length(500);
  });
});
