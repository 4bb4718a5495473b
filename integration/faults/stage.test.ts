import { expect } from "chai";
import { REACHED } from "#shared/faults/arm.ts";
import { reachedBy } from "./stage.ts";

describe("a process that ended by itself", () => {
  const lastLines = ["ready brain", `${REACHED} brain.call.sending`];

  it("reached a step when it killed itself there", async () => {
    expect(await reachedBy({ exit: { code: null, signal: "SIGKILL" }, lastLines })).to.equal("brain.call.sending");
  });

  it("reached none when it crashed, whatever it said before", async () => {
    expect(await reachedBy({ exit: { code: 1, signal: null }, lastLines })).to.equal(undefined);
    expect(await reachedBy({ exit: { code: null, signal: "SIGABRT" }, lastLines })).to.equal(undefined);
  });

  it("reached none when this run of it said nothing of one", async () => {
    expect(await reachedBy({ exit: { code: null, signal: "SIGKILL" }, lastLines: ["ready brain"] })).to.equal(
      undefined,
    );
  });

  it("may say so a little after its end", async () => {
    const late: string[] = [];
    const reached = reachedBy({ exit: { code: null, signal: "SIGKILL" }, lastLines: late });
    late.push(`${REACHED} brain.call.sent`);
    expect(await reached).to.equal("brain.call.sent");
  });
});
