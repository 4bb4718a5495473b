import { expect } from "chai";
import { compacted, headAndTail } from "./compaction.ts";
import { entriesOf, type HistoryEntry, historyOf } from "./history.ts";

const call = (callId: string) => ({ type: "tool-call", callId, modelCallId: callId, tool: "bash", input: {} }) as const;
const reply = (index: number): HistoryEntry => ({
  kind: "reply",
  replyId: `rpl_${index}`,
  model: "m",
  content: [{ type: "text", text: "w".repeat(1_000) }, call(`cal_${index}a`), call(`cal_${index}b`)],
});
const result = (callId: string): HistoryEntry => ({ kind: "result", callId, text: "x".repeat(5_000), failed: false });
const message = (messageId: string): HistoryEntry => ({ kind: "message", messageId, text: messageId });

/** Three turns of two replies each; the last one is open. */
const entries: HistoryEntry[] = [0, 1, 2].flatMap((turn) => [
  message(`msg_${turn}`),
  ...[turn * 2, turn * 2 + 1].flatMap((index) => [reply(index), result(`cal_${index}a`), result(`cal_${index}b`)]),
  ...(turn < 2 ? [{ kind: "ended", reason: "completed", text: undefined } as const] : []),
]);
const usage = { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0 };

describe("compacting a history", () => {
  const madeBy = (compaction: Parameters<typeof compacted>[1]) => entriesOf(compacted(historyOf(entries), compaction));

  function expectPairs(history: readonly HistoryEntry[]): void {
    const calls = history.flatMap((entry) =>
      entry.kind === "reply" ? entry.content.flatMap((part) => (part.type === "tool-call" ? [part.callId] : [])) : [],
    );
    const results = history.flatMap((entry) => (entry.kind === "result" ? [entry.callId] : []));
    expect(results).to.deep.equal(calls);
  }

  it("I6: leaves every call with its result, the first message and those of the present turn, wherever it cuts", () => {
    for (let index = 0; index < 6; index++) {
      const uptoReplyId = `rpl_${index}`;
      const summarized = madeBy({ kind: "summarized", uptoReplyId, summary: "So far", usage, costUsd: null });
      expectPairs(summarized);
      expect(summarized.slice(0, 2)).to.deep.equal([message("msg_0"), { kind: "summary", text: "So far" }]);
      expect(summarized).to.deep.include(message("msg_2"));
      const shortened = madeBy({ kind: "results-shortened", uptoReplyId, charactersMax: 100 });
      expectPairs(shortened);
      const short = shortened.filter((entry) => entry.kind === "result" && entry.text.length < 5_000);
      expect(short).to.have.length((index + 1) * 2);
    }
    for (const charactersMax of [4_000, 100, 0]) expectPairs(madeBy({ kind: "cut", charactersMax }));
  });

  it("changes nothing when the reply is not there", () => {
    expect(madeBy({ kind: "results-shortened", uptoReplyId: "rpl_9", charactersMax: 0 })).to.deep.equal(entries);
    expect(madeBy({ kind: "summarized", uptoReplyId: "rpl_9", summary: "", usage, costUsd: 0 })).to.deep.equal(entries);
  });

  it("says exactly how much of a text is left out, and leaves a text alone that would hardly be shorter", () => {
    const text = headAndTail(`${"a".repeat(600)}${"b".repeat(600)}`, 100);
    expect(text).to.equal(`${"a".repeat(50)}\n[… 1100 characters left out here …]\n${"b".repeat(50)}`);
    expect(headAndTail(text, 100)).to.equal(text);
    expect(headAndTail("c".repeat(300), 100)).to.equal("c".repeat(300));
  });
});
