import { expect } from "chai";
import { isOver } from "./rest.ts";

describe("a session that was ended", () => {
  const seen = (status: "idle" | "ending" | "ended", state: "absent" | "running" | "stopped" | "destroyed") => ({
    status,
    sandbox: { state, sandboxId: "sbx_1", generation: 1 },
  });

  it("is over when it says so and nothing is left of its sandbox", () => {
    expect(isOver(seen("ended", "destroyed"))).to.equal(true);
    expect(isOver(seen("ended", "absent"))).to.equal(true);
    for (const state of ["running", "stopped"] as const) expect(isOver(seen("ended", state)), state).to.equal(false);
    for (const status of ["idle", "ending"] as const) expect(isOver(seen(status, "absent")), status).to.equal(false);
  });
});
