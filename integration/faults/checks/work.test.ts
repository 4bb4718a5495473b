import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { outputOf } from "../observed.ts";
import {
  A,
  begun,
  done,
  ended,
  found,
  marks,
  notRun,
  observed,
  posted,
  replied,
  type Scene,
  SESSION,
  started,
  TURN,
  unknown,
} from "../testing/made-up-run.ts";
import { missingWork, type Work } from "./work.ts";

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

describe("the check that there was something to judge", () => {
  const copied: PistisEvent = {
    type: "RepositoryCopied",
    data: {
      sandboxId: "sbx_1",
      generation: 1,
      commit: null,
      branch: null,
      bundleBytes: 1,
      shallow: false,
      durationMs: 1,
    },
  };
  const compacted: PistisEvent = {
    type: "HistoryCompacted",
    data: { ...TURN, compaction: { kind: "cut", charactersMax: 1 }, tokensBefore: 2, tokensAfter: 1 },
  };
  const work = { lastingWanted: 1, lasting: [SESSION], mortal: ["ses_2"], faults: 200 };
  const missing = (lists: PistisEvent[][], scene: Scene, more: Partial<Work> = {}) =>
    missingWork(observed(lists, scene), { ...work, ...more }).length;
  const scene = { marks: marks("1-a", 0) };

  it("finds a run without sessions, marks, copies or compactions", () => {
    expect(missing([[copied], [compacted]], scene)).to.equal(0);
    expect(missing([[copied]], scene)).to.equal(1);
    expect(missing([[copied]], scene, { faults: 199 })).to.equal(0);
    expect(missing([[compacted]], scene)).to.equal(1);
    expect(missing([[copied], [compacted]], {})).to.equal(1);
    expect(missing([[copied], [compacted]], scene, { lasting: [], mortal: [] })).to.equal(2);
  });
});
