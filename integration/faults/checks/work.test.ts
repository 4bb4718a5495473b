import { expect } from "chai";
import { outputOf } from "../observed.ts";
import {
  A,
  begun,
  done,
  ended,
  found,
  marks,
  notRun,
  posted,
  replied,
  SESSION,
  started,
  unknown,
} from "../testing/made-up-run.ts";

describe("the check of what goes on after all faults", () => {
  const whole = [[posted], [begun()], [replied(A), started("cal_a")], [done("cal_a", outputOf("1-a"))], [ended]];
  const over = (markId: string | undefined, messageId = "msg_1") => ({
    marks: marks("1-a", 2_500),
    lastTurns: [{ session: SESSION, messageId, markId }],
  });

  it("finds a session whose last command did not run, in the turn that was given its message", () => {
    expect(found(whole, over("1-a"))).to.deep.equal([]);
    expect(found(whole, over(undefined))).to.deep.equal([]);
    expect(found(whole, over("2-b"))).to.deep.equal(["rest"]);
    expect(found(whole, over("1-a", "msg_2"))).to.deep.equal(["rest"]);
  });

  it("finds one that was refused, lost or left out, although its turn is completed", () => {
    const lastTurns = over("1-a").lastTurns;
    for (const end of [notRun("cal_a"), unknown("cal_a")]) {
      expect(found([...whole.slice(0, 3), [end], [ended]], { lastTurns }), end.type).to.deep.equal(["rest"]);
    }
    expect(found([[posted], [begun()], [ended]], { lastTurns: over(undefined).lastTurns })).to.deep.equal(["rest"]);
  });
});
