import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import {
  A,
  begun,
  DAMAGE,
  doneAs,
  ended,
  endRequested,
  found,
  interrupted,
  marks,
  posted,
  replied,
  started,
  TURN,
} from "../testing/made-up-run.ts";

describe("the checks of how calls end", () => {
  const turn = (...ends: PistisEvent[]) => [
    ...[[posted], [begun()], [replied(A), started("cal_a")]],
    ...ends.map((event) => [event]),
    [ended],
  ];
  const begunOnly = { marks: marks("1-a", 2_500).slice(0, 1) };

  it("I5: find a command that failed although nothing in it can fail", () => {
    for (const outcome of [
      { status: "exited", exitCode: 1 },
      { status: "signalled", signal: "SIGKILL" },
      { status: "timed-out", timeoutMs: 1 },
      { status: "failed", failure: { code: "spawn_failed", message: "" } },
    ] as const) {
      expect(found(turn(doneAs("cal_a", outcome)), begunOnly), outcome.status).to.deep.equal(["I5"]);
    }
    expect(found(turn(doneAs("cal_a", { status: "background", handle: "cal_a" })), begunOnly)).to.deep.equal([]);
  });

  it("I5: find a command that was stopped before anyone pressed Stop in its turn or ended its session", () => {
    const stopped = doneAs("cal_a", { status: "stopped" });
    const other: PistisEvent = { type: "InterruptRequested", data: { turnId: "trn_0" } };
    expect(found(turn(stopped), begunOnly)).to.deep.equal(["I5"]);
    expect(found(turn(stopped, interrupted), begunOnly)).to.deep.equal(["I5"]);
    expect(found(turn(other, stopped), begunOnly)).to.deep.equal(["I5"]);
    expect(found(turn(interrupted, stopped), begunOnly)).to.deep.equal([]);
    expect(found(turn(endRequested, stopped), begunOnly)).to.deep.equal([]);
  });

  it("find what a brain tells of a fault of its own", () => {
    const unknown = (reason: string): PistisEvent => ({
      type: "ToolOutcomeUnknown",
      data: { ...TURN, callId: "cal_a", ...DAMAGE, reason },
    });
    expect(found(turn(unknown("internal")), begunOnly)).to.deep.equal(["rest"]);
    expect(found(turn(unknown("sandbox_unreachable")), begunOnly)).to.deep.equal([]);
    const failed = (code: string): PistisEvent => ({
      type: "TurnEnded",
      data: { ...TURN, reason: "failed", failure: { code, message: "" } },
    });
    expect(found([[posted], [begun()], [failed("turn_vanished")]])).to.deep.equal(["rest"]);
    expect(found([[posted], [begun()], [failed("sandbox_start_timeout")]])).to.deep.equal([]);
  });
});
