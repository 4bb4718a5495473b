import { expect } from "chai";
import { debtMs, newCrowd, newTurns, notePassing } from "./turns.ts";

const bounds = { framesPerSecond: 1_000, frameBurst: 100, timeShare: 0.1, timeBurstMs: 50 };

describe("a leg's turns", () => {
  let crowd = newCrowd();
  beforeEach(() => {
    crowd = newCrowd();
  });
  const of = (sandboxId: string, now = 0) => newTurns(bounds, { sandboxId, crowd, now });

  it("may take all of the relay's time while no other sandbox's frames pass", () => {
    const leg = of("sbx_1");
    for (let now = 1; now <= 10_000; now++) {
      leg.timeLeftMs -= 1;
      notePassing(leg, now);
      expect(debtMs(leg, bounds, now)).to.equal(0);
    }
  });

  it("get a share of it among others, after what they may take at once", () => {
    const [leg, other] = [of("sbx_1"), of("sbx_2")];
    let rested = 0;
    let spent = 0;
    for (let now = 1; now < 10_000; now++) {
      notePassing(other, now);
      leg.timeLeftMs -= 1;
      spent += 1;
      notePassing(leg, now);
      const restMs = debtMs(leg, bounds, now);
      if (spent < 40) expect(restMs).to.equal(0);
      rested += restMs;
      now += restMs;
    }
    expect(spent).to.be.within(50 + 900, 50 + 1_100);
    expect(rested).to.be.above(8_000);
  });

  it("do not rest for long for what was spent alone", () => {
    const [leg, other] = [of("sbx_1"), of("sbx_2")];
    leg.timeLeftMs -= 60_000;
    expect(debtMs(leg, bounds, 60_000)).to.equal(0);
    notePassing(other, 60_001);
    expect(debtMs(leg, bounds, 60_001)).to.be.within(90, 100);
  });

  it("are no crowd with the other legs of the same sandbox, nor with one that was quiet since", () => {
    const [leg, peer, other] = [of("sbx_1"), of("sbx_1"), of("sbx_2")];
    notePassing(other, 0);
    leg.timeLeftMs = -10;
    for (const now of [300, 301]) {
      notePassing(peer, now);
      notePassing(leg, now);
      expect(debtMs(leg, bounds, now)).to.equal(0);
    }
  });

  it("rest for frames beyond so many a second, also alone", () => {
    const leg = of("sbx_1");
    leg.framesLeft -= 300;
    expect(debtMs(leg, bounds, 0)).to.be.closeTo(200, 1);
  });
});
