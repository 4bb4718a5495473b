import { expect } from "chai";
import { openRandom } from "./random.ts";
import { FREE_BRAIN, openStepPlan } from "./step-plan.ts";

describe("the plan of steps", () => {
  it("arms nothing once it has ended, not even what was forced, and knows who is armed still", () => {
    const plan = openStepPlan(openRandom(1));
    plan.force(FREE_BRAIN, "brain.call.sending:1:stop");
    expect(plan.arm(FREE_BRAIN)).to.equal("brain.call.sending:1:stop");
    plan.activate("gateway");
    expect(plan.arm("gateway")).to.match(/^gateway\./);
    plan.force(FREE_BRAIN, "brain.call.sending");
    plan.end();
    expect(plan.armedNow()).to.deep.equal([FREE_BRAIN, "gateway"]);
    expect(plan.arm(FREE_BRAIN)).to.equal(undefined);
    expect(plan.arm("gateway")).to.equal(undefined);
    expect(plan.armedNow()).to.deep.equal([]);
  });
});
