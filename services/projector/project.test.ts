import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { project } from "./project.ts";

const created: PistisEvent = { type: "SessionCreated", data: { title: "t", model: "script", provider: "local" } };
const posted = (messageId: string): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text: "hi", delivery: "steer" },
});
const cause = { correlationId: "ses_a", causationId: null };

async function history() {
  const ledger = memoryLedger().open("gateway");
  const first = await ledger.append("ses_a", NEW_SESSION, [created], cause);
  const second = await ledger.append("ses_a", first, [posted("msg_1")], cause);
  const third = await ledger.append("ses_a", second, [posted("msg_2")], cause);
  return { first, second, third };
}

describe("the projection of sessions", () => {
  it("folds a batch into rows as of its last message", async () => {
    const { first, second, third } = await history();
    const { overviews, gaps } = project([], [first, second, third]);
    expect(gaps).to.deep.equal([]);
    expect(overviews).to.have.length(1);
    expect(overviews[0]?.version).to.deep.equal({ sequence: third.sequence, hash: third.hash });
    expect(overviews[0]?.session.queuedMessages).to.equal(2);
  });

  it("comes to the same rows however the messages are cut into batches and however often they come", async () => {
    const { first, second, third } = await history();
    const whole = project([], [first, second, third]).overviews;
    const one = project([], [first]).overviews;
    const two = project(one, [first, second]).overviews;
    const three = project(two, [second, third]).overviews;
    expect(three).to.deep.equal(whole);
    expect(project(three, [first, second, third])).to.deep.equal({ overviews: [], gaps: [] });
  });

  it("C138: says where a message is missing and goes on", async () => {
    const { first, second, third } = await history();
    const { overviews, gaps } = project(project([], [first]).overviews, [third]);
    expect(gaps).to.deep.equal([{ session: "ses_a", after: first.sequence, sequence: third.sequence }]);
    expect(second.sequence).to.be.lessThan(third.sequence);
    expect(overviews[0]?.version.sequence).to.equal(third.sequence);
  });
});
