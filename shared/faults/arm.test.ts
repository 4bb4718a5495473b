import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect } from "chai";
import { parseArmedStep, REACHED } from "./arm.ts";

const CODE = `
  const { armStep } = await import(${JSON.stringify(join(import.meta.dirname, "arm.ts"))});
  const { step } = await import(${JSON.stringify(join(import.meta.dirname, "step.ts"))});
  armStep(process.env.STEP);
  for (let time = 1; time <= 3; time++) { step("brain.call.sent"); console.log(time); }
`;

function reach(armed?: string) {
  const env = { PATH: process.env["PATH"], ...(armed === undefined ? {} : { STEP: armed }) };
  return spawnSync(process.execPath, ["--input-type=module", "-e", CODE], { env, encoding: "utf8" });
}

describe("an armed step", () => {
  it("kills the process when it is reached for the n-th time, and nothing comes after", () => {
    const { signal, stdout, stderr } = reach("brain.call.sent:2");
    expect([signal, stdout]).to.deep.equal(["SIGKILL", "1\n"]);
    expect(stderr).to.contain(`${REACHED} brain.call.sent`);
  });

  it("does nothing at other steps, or when none is armed", () => {
    for (const armed of [undefined, "brain.call.stored"]) expect(reach(armed).stdout, armed).to.equal("1\n2\n3\n");
  });

  it("is read with how often and how", () => {
    const stop = { name: "relay.join.burnt", nth: 3, signal: "SIGSTOP" };
    expect(parseArmedStep("relay.join.burnt:3:stop")).to.deep.equal(stop);
    expect(parseArmedStep("relay.join.burnt")).to.deep.equal({ ...stop, nth: 1, signal: "SIGKILL" });
  });

  it("is refused when there is no such step", () => {
    for (const text of ["toString", "brain.call.sent:0", "brain.call.sent:kill:2", "nowhere"]) {
      expect(() => parseArmedStep(text), text)
        .to.throw()
        .with.property("code", "fault_step_invalid");
    }
  });
});
