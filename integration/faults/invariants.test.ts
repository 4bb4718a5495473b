import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { countLateStarts } from "./checks/epochs.ts";
import { violationsIn } from "./invariants.ts";
import { contentOf, outputOf, readMarks } from "./observed.ts";
import {
  A,
  begun,
  DAMAGE,
  done,
  ended,
  found,
  marks,
  notRun,
  observed,
  posted,
  replied,
  SESSION,
  started,
  TURN,
  takenOver,
  unknown,
  written,
} from "./testing/made-up-run.ts";

describe("the checks of a run", () => {
  const whole = [[posted], [begun()], [replied(A), started("cal_a")], [done("cal_a", outputOf("1-a"))], [ended]];

  it("find nothing in a turn that went as it should", () => {
    expect(violationsIn(observed(whole, { marks: marks("1-a", 2_500), accepted: ["msg_1"] }))).to.deep.equal([]);
  });

  it("read the marks that a command leaves, and nothing else", () => {
    const text = "start mark-1-a 12.345678\nend mark-1-a 12.5\nstart mark-half";
    expect(readMarks(SESSION, text)).to.deep.equal([
      { session: SESSION, id: "1-a", kind: "start", atMs: 12_345.678 },
      { session: SESSION, id: "1-a", kind: "end", atMs: 12_500 },
    ]);
  });

  it("I1: find a mark of a call that was never started, or before it was", () => {
    expect(found([[posted], [begun()], [ended]], { marks: marks("9-z", 1_500) })).to.deep.equal(["I1"]);
    expect(found(whole, { marks: marks("1-a", 1_900) })).to.deep.equal(["I1"]);
  });

  it("I1: find a file of a call that was never started", () => {
    const files = [{ session: SESSION, id: "2-w", content: contentOf("2-w") }];
    const asked = [replied({ callId: "cal_w", mark: "2-w", tool: "write" })];
    expect(found([[posted], [begun()], [ended]], { files })).to.deep.equal(["I1"]);
    const unknownEnd = [[posted], [begun()], asked, [unknown("cal_w")], [ended]];
    expect(found(unknownEnd, { files })).to.deep.equal(["I1"]);
    expect(found(unknownEnd.with(2, [...asked, started("cal_w")]), { files })).to.deep.equal([]);
  });

  it("I2: find a command that ran twice, under one id or under two", () => {
    expect(found(whole, { marks: [...marks("1-a", 2_500), ...marks("1-a", 2_600)] })).to.deep.equal(["I2"]);
    const again = [replied({ callId: "cal_b", mark: "1-a" }), started("cal_b")];
    const twice = [...whole.slice(0, 4), again, [done("cal_b", outputOf("1-a"))], [ended]];
    expect(found(twice, { marks: marks("1-a", 2_500) })).to.deep.equal(["I2"]);
  });

  it("I3: find a call without an end, with two ends, or started twice", () => {
    const open = [...whole.slice(0, 3), [ended]];
    expect(found(open, { marks: marks("1-a", 2_500) })).to.deep.equal(["I3", "I6"]);
    const twice = [...whole.slice(0, 4), [unknown("cal_a")], [ended]];
    expect(found(twice, { marks: marks("1-a", 2_500) })).to.deep.equal(["I3"]);
    const again = [...whole.slice(0, 3), [started("cal_a")], ...whole.slice(3)];
    expect(found(again, { marks: marks("1-a", 2_500) })).to.deep.equal(["I3"]);
  });

  it("I4: find what a deposed brain writes or lets run", () => {
    const after = [...whole.slice(0, 2), [takenOver(2)], [replied(A), started("cal_a", 1)], [notRun("cal_a")], [ended]];
    expect(found(after)).to.deep.equal(["I4"]);
    const late = [...whole.slice(0, 3), [takenOver(2)], [unknown("cal_a")], [ended]];
    expect(found(late, { marks: marks("1-a", 2_500) })).to.deep.equal([]);
    expect(found(late, { marks: marks("1-a", 4_500) })).to.deep.equal(["I4"]);
    const silent: PistisEvent = {
      type: "ToolOutcomeUnknown",
      data: { ...TURN, callId: "cal_a", ...DAMAGE, reason: "sandbox_unreachable" },
    };
    const given = observed([...whole.slice(0, 3), [silent], [ended]], { marks: marks("1-a", 3_500) });
    expect(violationsIn(given)).to.deep.equal([]);
    expect(countLateStarts(given)).to.equal(1);
    const blind = observed(whole, { marks: marks("1-a", 2_500) });
    const messages = blind.messages.map((message) => ({ ...message, causationId: message.causationId && "evt_0" }));
    expect(violationsIn({ ...blind, messages }).map(({ of }) => of)).to.include("I4");
    const same = [...whole.slice(0, 2), [takenOver(1)], ...whole.slice(2)];
    expect(found(same, { marks: marks("1-a", 3_500) })).to.deep.equal(["I4"]);
  });

  it("I5: find a result that is not what happened", () => {
    expect(found(whole)).to.deep.equal(["I5"]);
    expect(found(whole, { marks: marks("1-a", 2_500).slice(0, 1) })).to.deep.equal(["I5"]);
    const silent = [...whole.slice(0, 3), [done("cal_a", "(no output)")], [ended]];
    expect(found(silent, { marks: marks("1-a", 2_500) })).to.deep.equal(["I5"]);
    const echo = [...whole.slice(0, 3), [done("cal_a", `${outputOf("1-a")}out-1-a 4\n`)], [ended]];
    expect(found(echo, { marks: marks("1-a", 2_500) })).to.deep.equal(["I5"]);
    const gap = [...whole.slice(0, 3), [done("cal_a", outputOf("1-a").replace("out-1-a 2\n", ""))], [ended]];
    expect(found(gap, { marks: marks("1-a", 2_500) })).to.deep.equal(["I5"]);
    const denied = [...whole.slice(0, 3), [notRun("cal_a")], [ended]];
    expect(found(denied, { marks: marks("1-a", 2_500) })).to.deep.equal(["I5"]);
    expect(found(denied)).to.deep.equal([]);
  });

  it("I5: find a file that is there, or not, against what was told", () => {
    const W = { callId: "cal_w", mark: "2-w", tool: "write" };
    const file = { session: SESSION, id: "2-w", content: contentOf("2-w") };
    const turn = (end: PistisEvent) => [[posted], [begun()], [replied(W), started("cal_w")], [end], [ended]];
    expect(found(turn(written("cal_w")), { files: [file] })).to.deep.equal([]);
    expect(found(turn(written("cal_w")), { files: [{ ...file, content: "" }] })).to.deep.equal(["I5"]);
    expect(found(turn(written("cal_w")))).to.deep.equal(["I5"]);
    expect(found(turn(notRun("cal_w")), { files: [file] })).to.deep.equal(["I5"]);
    expect(found(turn(unknown("cal_w")), { files: [file] })).to.deep.equal([]);
  });

  it("I5: miss nothing on a disk that was deleted with its session, and believe what was kept of it", () => {
    expect(found(whole, { withoutDisk: true })).to.deep.equal([]);
    const denied = [...whole.slice(0, 3), [notRun("cal_a")], [ended]];
    expect(found(denied, { withoutDisk: true })).to.deep.equal([]);
    expect(found(denied, { withoutDisk: true, marks: marks("1-a", 2_500) })).to.deep.equal(["I5"]);
  });

  it("I6: find a reply while a call of the one before is open", () => {
    const next = replied({ callId: "cal_b", mark: "2-b" });
    const early = [...whole.slice(0, 3), [next], [done("cal_a", outputOf("1-a"))], [notRun("cal_b")], [ended]];
    expect(found(early, { marks: marks("1-a", 2_500) })).to.deep.equal(["I6"]);
  });

  it("find a message that was lost, was given twice, or was never given", () => {
    expect(found(whole, { marks: marks("1-a", 2_500), accepted: ["msg_2"] })).to.deep.equal(["delivery"]);
    const again: PistisEvent = { type: "MessagesDelivered", data: { ...TURN, messageIds: ["msg_1"] } };
    const twice = [...whole.slice(0, 2), [again], ...whole.slice(2)];
    expect(found(twice, { marks: marks("1-a", 3_500) })).to.deep.equal(["delivery"]);
    expect(found([[posted]])).to.deep.equal(["delivery"]);
    expect(found([[posted], [{ type: "SessionEndRequested", data: {} }]])).to.deep.equal([]);
  });
});
