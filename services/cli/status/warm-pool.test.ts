import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { stateOf, warmPoolText } from "./warm-pool.ts";

const none = { ready: 0, starting: 0, claimed: 0, deleting: 0, failuresInRow: 0, waitUntil: null };
const about = { sandboxId: "sbx_pool1", generation: 1 };
const joined: PistisEvent = { type: "SandboxJoined", data: { ...about, bootId: "a", report: reportPlace(1) } };
const probed = (passed: boolean): PistisEvent => ({
  type: "EgressProbed",
  data: { ...about, passed, findings: [], durationMs: 1 },
});
const claimed: PistisEvent = { type: "PoolMemberClaimed", data: { claimedBy: "ses_1" } };
const retired: PistisEvent = { type: "PoolMemberRetired", data: { reason: "r" } };

describe("the warm pool in pistis status", () => {
  it("counts a sandbox as ready when its probe passed and nobody has it", () => {
    expect(stateOf([])).to.equal("starting");
    expect(stateOf([joined, probed(false)])).to.equal("starting");
    expect(stateOf([joined, probed(true)])).to.equal("ready");
    expect(stateOf([joined, probed(true), claimed])).to.equal("claimed");
    expect(stateOf([joined, probed(true), claimed, retired])).to.equal("deleting");
  });

  it("says nothing where there is no pool, and why it is short of sandboxes where it is", () => {
    expect(warmPoolText(none)).to.equal("");
    expect(warmPoolText({ ...none, ready: 2 })).to.equal("\nwarm sandboxes: 2 ready\n");
    expect(
      warmPoolText({ ...none, starting: 1, deleting: 1, failuresInRow: 3, waitUntil: "2026-11-30T12:00:04.000Z" }),
    ).to.equal(
      "\nwarm sandboxes: 0 ready, 1 starting, 1 being deleted, 3 failed in a row, next one not before 2026-11-30T12:00:04.000Z\n",
    );
  });
});
