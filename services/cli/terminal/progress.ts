// How far a long piece of work has come, as a line now and then on standard error.
import type { Terminal } from "./terminal.ts";

const EVERY_MS = 1_000;

/** `of` is where it ends. Quick work prints nothing. */
export function progress({ err }: Terminal, what: string, of: () => number): (reached: number) => void {
  let printedAt = performance.now();
  return (reached) => {
    const now = performance.now();
    if (now - printedAt < EVERY_MS) return;
    printedAt = now;
    err(`  ${what} ${reached.toLocaleString("en")} of ${of().toLocaleString("en")}\n`);
  };
}
