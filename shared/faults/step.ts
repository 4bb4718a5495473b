import type { StepName } from "./steps.ts";

// The one module state of the services: a step is a place in the code, not a thing that somebody holds, and handing a
// hook to every function with an await would be a parameter everywhere for nothing but tests. It is undefined unless
// a main.ts was told to arm one (arm.ts), and then for the life of the process.
let onStep: ((name: StepName) => void) | undefined;

/** A moment between two effects at which this process may die. Does nothing unless a test armed it. */
export function step(name: StepName): void {
  onStep?.(name);
}

/** Called by the process's own start alone. */
export function watchSteps(watch: (name: StepName) => void): void {
  onStep = watch;
}
