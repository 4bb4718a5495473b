import { expect } from "chai";
import { faultsOfRequest } from "./model-requests.ts";

describe("a request to the model", () => {
  const user = { role: "user", content: "go" };
  const asks = (...ids: string[]) => ({ role: "assistant", content: null, tool_calls: ids.map((id) => ({ id })) });
  const answers = (id: string, content = "ok") => ({ role: "tool", tool_call_id: id, content });
  const faults = (...messages: object[]) => faultsOfRequest(JSON.stringify({ messages })).length;

  it("I6: is right when each reply's calls are followed by their results and nothing else", () => {
    expect(faults(user)).to.equal(0);
    expect(faults(user, asks("a", "b"), answers("b"), answers("a"), user)).to.equal(0);
    expect(faults(user, asks("a"), answers("a"), asks("b"), answers("b"))).to.equal(0);
  });

  it("I6: is wrong when a result is missing, comes late, twice or unasked for", () => {
    expect(faults(user, asks("a"))).to.equal(1);
    expect(faults(user, asks("a", "b"), answers("a"), user)).to.equal(1);
    expect(faults(user, asks("a"), user, answers("a"))).to.equal(2);
    expect(faults(user, asks("a"), answers("a"), answers("a"))).to.equal(1);
    expect(faults(user, answers("a"))).to.equal(1);
  });

  it("I6: is wrong when a call was open, and when it cannot be read", () => {
    const open = "Outcome unknown: it may have partly or fully run.";
    expect(faults(user, asks("a"), answers("a", open))).to.equal(1);
    expect(faults(user, asks("a"), answers("a", `${open} The sandbox was restarted.`))).to.equal(0);
    expect(faultsOfRequest("{").length).to.equal(1);
    expect(faultsOfRequest('{"messages":[]}').length).to.equal(1);
  });
});
