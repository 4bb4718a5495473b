import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { outputOf } from "../observed.ts";
import {
  A,
  begun,
  DAMAGE,
  done,
  doneAs,
  ended,
  found,
  interrupted,
  marks,
  posted,
  replied,
  SESSION,
  started,
  TURN,
} from "../testing/made-up-run.ts";

describe("the checks of what the model is told", () => {
  const sandbox = { sandboxId: "sbx_1", generation: 1 };
  const running = [[posted], [begun()], [replied(A), started("cal_a")]];
  const background = doneAs("cal_a", { status: "background", handle: "cal_a" });
  const gone: PistisEvent = { type: "SandboxMissing", data: sandbox };
  const stopped: PistisEvent = { type: "SandboxStopped", data: { ...sandbox, reason: "" } };

  it("I5: find a background command that never began, unless the sandbox was cut off in its first moment", () => {
    const turn = [...running, [background], [ended]];
    expect(found(turn, { marks: marks("1-a", 2_500).slice(0, 1) })).to.deep.equal([]);
    expect(found(turn)).to.deep.equal(["I5"]);
    expect(found([[gone], ...turn])).to.deep.equal(["I5"]);
    expect(found([...turn, [gone]])).to.deep.equal([]);
    expect(found([...turn, [stopped]])).to.deep.equal([]);
  });

  it("I5: find that it never began also when the sandbox was cut off long after", () => {
    const later = [[replied({ callId: "cal_b", mark: "2-b" })], [started("cal_b")], [done("cal_b", outputOf("2-b"))]];
    const scene = { marks: marks("2-b", 5_500) };
    expect(found([...running, [background], ...later, [stopped], [ended]], scene)).to.deep.equal(["I5"]);
    expect(
      found([...running, [background], ...later.slice(0, 2), [stopped], ...later.slice(2), [ended]], scene),
    ).to.deep.equal([]);
  });

  it("I5: find a command that goes on after it was told as stopped or done, and not one in the background", () => {
    const goesOn = (end: PistisEvent) =>
      found([...running, [interrupted], [end], [ended]], {
        marks: marks("1-a", 2_500).with(1, { ...late, kind: "end" }),
      });
    const late = { session: SESSION, id: "1-a", atMs: 5_500 };
    expect(goesOn(doneAs("cal_a", { status: "stopped" }))).to.deep.equal(["I5"]);
    expect(goesOn(done("cal_a", outputOf("1-a")))).to.deep.equal(["I5"]);
    expect(goesOn(background)).to.deep.equal([]);
    const inTime = { marks: marks("1-a", 2_500) };
    expect(found([...running, [interrupted], [doneAs("cal_a", { status: "stopped" })], [ended]], inTime)).to.deep.equal(
      [],
    );
  });

  it("I5: find a restart that the model is told of and that never was", () => {
    const restarted: PistisEvent = {
      type: "ToolOutcomeUnknown",
      data: { ...TURN, callId: "cal_a", ...DAMAGE, reason: "sandbox_restarted" },
    };
    const turn = [...running, [restarted], [ended]];
    expect(found(turn)).to.deep.equal(["I5"]);
    expect(found([[stopped], ...turn])).to.deep.equal(["I5"]);
    expect(found([...turn, [stopped]])).to.deep.equal([]);
    expect(found([...running, [stopped], [restarted], [ended]])).to.deep.equal([]);
  });
});
