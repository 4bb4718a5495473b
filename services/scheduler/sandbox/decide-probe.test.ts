import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import {
  answerNeed,
  createRequested,
  creating,
  ended,
  given,
  inspecting,
  inspectRequested,
  joined,
  leak,
  missing,
  needed,
  opened,
  probed,
  recordProbe,
  restarting,
  restartRequested,
  second,
  shut,
  stopped,
  up,
} from "../testing/sandbox-fixture.ts";
import { sandboxToProbe } from "./decide-probe.ts";
import { evolve, initialState } from "./sandbox.ts";

describe("the probe of a sandbox's network", () => {
  it("C117: is a fact that passed only when all that was tried came out as it should", () => {
    given(...up)
      .when(recordProbe([shut]))
      .then(probed(true));
    given(...up)
      .when(recordProbe([shut, leak]))
      .then(probed(false));
    given(...inspecting)
      .when(recordProbe([shut]))
      .then(probed(true));
  });

  it("is about the sandbox that is there, and no other", () => {
    given(...up)
      .when(recordProbe([shut], 2))
      .thenRefused("probe_stale");
    given(...restarting)
      .when(recordProbe([shut]))
      .thenRefused("probe_stale");
    given(opened)
      .when(recordProbe([shut]))
      .thenRefused("probe_stale");
  });

  it("is made until one passed, once for each generation", () => {
    const isLeft = (...events: PistisEvent[]) => sandboxToProbe(events.reduce(evolve, initialState)) !== undefined;
    expect(isLeft(...creating)).to.equal(false);
    expect(isLeft(...up)).to.equal(true);
    expect(isLeft(...up, probed(false))).to.equal(true);
    expect(isLeft(...inspecting)).to.equal(true);
    expect(isLeft(...up, probed(true))).to.equal(false);
    expect(isLeft(...up, probed(true), stopped, needed("stopped"), restartRequested(), joined("b"))).to.equal(false);
    const replaced = [...up, probed(true), missing, needed("absent"), createRequested("tsk_2", second)];
    expect(isLeft(...replaced, joined("b", second))).to.equal(true);
    expect(isLeft(...up, ended)).to.equal(false);
  });

  it("changes nothing once it has passed, whatever is reported again", () => {
    given(...up, probed(true))
      .when(recordProbe([leak]))
      .thenNothing();
    given(...up, probed(false))
      .when(recordProbe([shut]))
      .then(probed(true));
  });

  it("asks the provider about a sandbox that a turn waits for: it may answer no probe because it is gone", () => {
    given(...up, probed(false), needed("unprobed"))
      .when(answerNeed)
      .then(inspectRequested("tsk_new"));
  });
});
