import { expect } from "chai";
import { REST_MS_MAX, Troubles } from "./troubles.ts";

describe("sessions that fail again and again", () => {
  it("are taken up at once the first time, then ever more rarely, and normally again once they worked", () => {
    let now = 0;
    const troubles = new Troubles(() => now);
    troubles.note("ses_1");
    expect(troubles.isResting("ses_1")).to.equal(false);
    troubles.note("ses_1");
    expect(troubles.isResting("ses_1")).to.equal(true);
    for (let times = 0; times < 20; times++) troubles.note("ses_1");
    now = REST_MS_MAX - 1;
    expect(troubles.isResting("ses_1")).to.equal(true);
    now = REST_MS_MAX;
    expect(troubles.isResting("ses_1")).to.equal(false);
    troubles.note("ses_1");
    troubles.forget("ses_1");
    expect(troubles.isResting("ses_1")).to.equal(false);
  });
});
