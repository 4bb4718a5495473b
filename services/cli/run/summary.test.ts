import { expect } from "chai";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { emptySummary, summarize } from "./summary.ts";
import { summaryLines } from "./wording.ts";

function at(seconds: number, ...events: PistisEvent[]): LedgerMessageView {
  const time = new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
  const envelope = { sequence: 1, id: "evt_1", session: "ses_1", at: time, writer: "brain" as const };
  return { ...envelope, correlationId: "ses_1", causationId: null, hash: "", prev: "", events };
}

function reply(costUsd: number | null, ...paths: string[]): PistisEvent {
  const calls = paths.map((path) => ({
    type: "tool-call" as const,
    callId: "cal_1",
    modelCallId: "m",
    tool: "edit",
    input: { path },
  }));
  const usage = { inputTokens: 100, outputTokens: 10, cachedInputTokens: 0 };
  const data = { turnId: "trn_1", replyId: "rpl_1", model: "m", finishReason: "stop" as const, usage, requestMs: 1 };
  return { type: "ModelReplied", data: { ...data, content: calls, costUsd } };
}

describe("a turn's summary", () => {
  const start: PistisEvent = {
    type: "TurnStarted",
    data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: ["msg_1"] },
  };
  const call: PistisEvent = { type: "ToolStarted", data: { turnId: "trn_1", callId: "cal_1", tool: "bash", epoch: 1 } };
  const end: PistisEvent = { type: "TurnEnded", data: { turnId: "trn_1", reason: "completed" } };

  it("adds up time, replies, calls, tokens, cost and files", () => {
    const messages = [
      at(0, start),
      at(1, reply(0.5, "a.ts", "b.ts")),
      at(1, call),
      at(2, reply(0.25, "a.ts")),
      at(3, end),
    ];
    expect(summaryLines(messages.reduce(summarize, emptySummary))).to.deep.equal([
      "3.0 s · 2 model replies · 1 call · 200 tokens in, 20 out · $0.75",
      "changed by write and edit: a.ts, b.ts",
    ]);
  });

  it("says when a price is not known", () => {
    const messages = [at(0, start), at(1, reply(0.5)), at(2, reply(null)), at(3, end)];
    expect(summaryLines(messages.reduce(summarize, emptySummary))[0]).to.contain("at least $0.50");
  });
});
