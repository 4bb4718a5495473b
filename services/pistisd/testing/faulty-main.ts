// pistisd as the fault injector runs it: the daemon kills itself at the step that a file beside its state names. Only
// `npm run build:pistisd -- --faults` compiles this; the daemon that sandboxes get has nothing that could be armed.
import { readFileSync, rmSync, writeSync } from "node:fs";
import { watchSteps } from "#shared/faults/step.ts";

/** Written from the host into the state folder of one sandbox. */
const armed = `${process.env["PISTISD_STATE"] || "/var/lib/pistisd"}/fault-step`;

watchSteps((name) => {
  if (armedStep() !== name) return;
  rmSync(armed, { force: true });
  writeSync(2, `fault step reached: ${name}\n`);
  process.kill(process.pid, "SIGKILL");
});

function armedStep(): string | undefined {
  try {
    return readFileSync(armed, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

void import("../main.ts");
