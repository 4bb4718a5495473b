import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { begun, ended, endRequested, found, posted } from "../testing/made-up-run.ts";

describe("the checks of what becomes of sandboxes", () => {
  const first = { sandboxId: "sbx_1", generation: 1 };
  const asked = { ...first, provider: "local", taskId: "tsk_1" };
  const deletion: PistisEvent = { type: "SandboxDeleteRequested", data: asked };
  const restart: PistisEvent = { type: "SandboxRestartRequested", data: asked };
  const stopped: PistisEvent = { type: "SandboxStopped", data: { ...first, reason: "" } };
  const missing: PistisEvent = { type: "SandboxMissing", data: first };
  const sessionEnded: PistisEvent = { type: "SessionEnded", data: {} };
  const create = (generation: number): PistisEvent => ({
    type: "SandboxCreateRequested",
    data: { ...asked, generation, network: { mode: "none" } },
  });
  const joined = (generation = 1): PistisEvent => ({
    type: "SandboxJoined",
    data: { ...first, generation, bootId: "a", report: { sequence: 1, storedAt: "2026-12-01T00:00:00.000Z" } },
  });
  const failed: PistisEvent = {
    type: "SandboxFailed",
    data: { ...first, failure: { code: "provider_silent", message: "" } },
  };

  it("I7: find a deletion before the session is over, in a turn or between two", () => {
    expect(found([[posted], [begun()], [deletion], [ended]])).to.deep.equal(["I7"]);
    expect(found([[posted], [begun()], [ended], [deletion]])).to.deep.equal(["I7"]);
    expect(found([[posted], [begun()], [endRequested], [deletion], [ended]])).to.deep.equal(["I7"]);
    expect(found([[posted], [begun()], [endRequested], [ended, sessionEnded], [deletion]])).to.deep.equal([]);
  });

  it("I7: find a restart of a sandbox that was not seen to be stopped since it joined", () => {
    expect(found([[create(1)], [joined()], [restart]])).to.deep.equal(["I7"]);
    expect(found([[create(1)], [joined()], [stopped], [restart], [joined()], [restart]])).to.deep.equal(["I7"]);
    expect(found([[create(1)], [joined()], [stopped, restart], [joined()]])).to.deep.equal([]);
    expect(found([[create(1)], [joined()], [stopped], [restart], [failed], [restart]])).to.deep.equal([]);
  });

  it("I8: find a new sandbox whose predecessor nobody missed", () => {
    expect(found([[create(1)], [create(2)]])).to.deep.equal(["I8"]);
    expect(found([[create(1)], [missing, create(2)]])).to.deep.equal([]);
  });

  it("I8: find a sandbox that is told as gone and whose disk nobody took away", () => {
    expect(found([[create(1)], [joined()], [missing]])).to.deep.equal(["I8"]);
    expect(found([[create(1)], [joined()], [missing]], { disksLost: 1 })).to.deep.equal([]);
    expect(found([[create(1)], [missing]])).to.deep.equal([]);
    const second: PistisEvent = { type: "SandboxMissing", data: { ...first, generation: 2 } };
    const again = [[create(1)], [joined()], [missing, create(2)], [joined(2)], [second]];
    expect(found(again, { disksLost: 1 })).to.deep.equal(["I8"]);
    expect(found(again, { disksLost: 2 })).to.deep.equal([]);
  });
});
