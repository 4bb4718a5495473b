import { expect } from "chai";
import type { CallResult, HistoryEntry } from "../../session/history.ts";
import { promptOf } from "./prompt.ts";

describe("a history as a prompt", () => {
  const call = { type: "tool-call", callId: "cal_1", modelCallId: "call_1", tool: "bash", input: {} } as const;
  const reply: HistoryEntry = { kind: "reply", replyId: "rpl_1", model: "served", content: [call] };
  const result = (text: string): CallResult => ({ kind: "result", callId: "cal_1", text, failed: false });
  const rendered = (...entries: HistoryEntry[]) => JSON.stringify(promptOf("Be good", [reply, ...entries]));

  it("has a call's result as soon as there is one, and another one when it was shortened", () => {
    expect(rendered()).to.contain("Outcome unknown");
    expect(rendered(result("a long text")))
      .to.contain("a long text")
      .and.not.contain("Outcome unknown");
    expect(rendered(result("short")))
      .to.contain("short")
      .and.not.contain("a long text");
  });

  it("is the same when it is asked for again, however long it has become", () => {
    const [once, later] = [result("done"), { kind: "notice", text: "The sandbox is new" } as const];
    const first = rendered(once);
    expect(rendered(once)).to.equal(first);
    expect(rendered(once, later).startsWith(first.slice(0, -1))).to.equal(true);
    expect(rendered(once, later, later)).to.contain("The sandbox is new");
    expect(rendered(once)).to.equal(first);
  });
});
