// What a start is doing, one line per step with its time.
import { durationText } from "../terminal/quantities.ts";
import type { Terminal } from "../terminal/terminal.ts";

const NAME_WIDTH = 26;

export type Steps = Readonly<{
  /** Runs the step and prints its name, time and what `say` tells of its result. */
  run: <T>(name: string, step: () => Promise<T>, say?: (result: T) => string) => Promise<T>;
}>;

export function printedSteps({ err, paint }: Terminal): Steps {
  return {
    run: async (name, step, say = () => "") => {
      const startedAt = performance.now();
      const result = await step();
      const took = durationText(performance.now() - startedAt);
      err(`  ${name.padEnd(NAME_WIDTH)} ${paint("dim", took.padStart(8))}  ${say(result)}`.trimEnd().concat("\n"));
      return result;
    },
  };
}
