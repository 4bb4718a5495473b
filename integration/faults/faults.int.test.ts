// 200 faults and every named step, on a whole install of real processes. `npm run soak` does the same for longer.
import { expect } from "chai";
import { type RunResult, run } from "./injector.ts";
import { stepNames } from "./step-plan.ts";
import { summaryOf } from "./summary.ts";
import { INVARIANTS } from "./violation.ts";

const FAULTS = 200;
const SEED = 20_260_801;
const UNKNOWN_SHARE_MAX = 0.25;

const PROMISES = {
  I1: "nothing ran that the ledger had not started",
  I2: "no command ran twice",
  I3: "every call that was asked for has one end",
  I4: "no deposed brain wrote or let anything run",
  I5: "what the model was told is what the disk says",
  I6: "the model was never asked while a call was open",
  I7: "no sandbox was taken away from an open turn",
  I8: "no sandbox was replaced that was not gone",
} as const;

describe(`an install under ${FAULTS} faults`, function () {
  this.timeout(20 * 60_000);
  let result: RunResult;

  before(async () => {
    result = await run({ seed: SEED, faults: FAULTS, allSteps: true, say: () => undefined });
    process.stdout.write(`\nseed ${SEED}: ${JSON.stringify(summaryOf([result]), undefined, 2)}\n`);
  });

  const violationsOf = (name: string) =>
    result.violations.filter(({ of }) => of === name).map(({ session, text }) => `${session}: ${text}`);

  it("died at every named step", () => {
    expect(stepNames().filter((name) => !result.steps.has(name))).to.deep.equal([]);
    expect(result.faults.length).to.be.at.least(FAULTS);
  });

  for (const name of INVARIANTS) {
    it(`${name}: ${PROMISES[name]}`, () => expect(violationsOf(name)).to.deep.equal([]));
  }

  it("gave the model every posted message once", () => expect(violationsOf("delivery")).to.deep.equal([]));

  it("has a ledger whose chain holds and a mirror that is equal to it", () => {
    expect([...violationsOf("chain"), ...violationsOf("mirror")]).to.deep.equal([]);
  });

  it("started no command that was told as unknown before, and told few as unknown", () => {
    const { lateStarts, unknown, calls } = result.figures;
    expect(lateStarts).to.equal(0);
    expect(unknown / calls).to.be.below(UNKNOWN_SHARE_MAX);
  });

  it("had no service that ended by itself", () => expect(result.exits).to.deep.equal([]));

  it("comes to rest and goes on with a completed turn in every session", () => {
    expect(violationsOf("rest")).to.deep.equal([]);
  });
});
