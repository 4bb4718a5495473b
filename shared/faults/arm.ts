// Arms one step of this process: when it is reached for the n-th time, the process kills or stops itself on the spot.
import { writeSync } from "node:fs";
import { Refusal } from "#shared/errors/errors.ts";
import { watchSteps } from "./step.ts";
import { isStepName, type StepName } from "./steps.ts";

export type ArmedStep = Readonly<{ name: StepName; nth: number; signal: "SIGKILL" | "SIGSTOP" }>;

/** Starts the line that says that the step was reached, on standard error. */
export const REACHED = "fault step reached:";

const FORM = /^([a-z.-]+)(?::([1-9]\d{0,5}))?(?::(kill|stop))?$/;

/** Reads `name[:nth][:kill|stop]`. Throws a Refusal `fault_step_invalid`. */
export function parseArmedStep(text: string): ArmedStep {
  const [, name = "", nth = "1", how = "kill"] = FORM.exec(text) ?? [];
  if (!isStepName(name)) {
    throw new Refusal("fault_step_invalid", `${JSON.stringify(text.slice(0, 100))} is no step of a process`, {
      next: "Unset PISTIS_FAULT_STEP: it is there for tests that kill this process.",
    });
  }
  return { name, nth: Number(nth), signal: how === "stop" ? "SIGSTOP" : "SIGKILL" };
}

/** For the process's own start: `text` is the value of PISTIS_FAULT_STEP. Nothing is armed without one. */
export function armStep(text: string | undefined): void {
  if (text === undefined || text === "") return;
  const armed = parseArmedStep(text);
  let left = armed.nth;
  watchSteps((name) => {
    if (name === armed.name && --left === 0) strike(armed);
  });
}

/** The kernel delivers both signals before the call returns: nothing runs after this line. */
function strike({ name, signal }: ArmedStep): void {
  writeSync(2, `${REACHED} ${name}\n`);
  process.kill(process.pid, signal);
}
