import type { Context } from "../context.ts";
import { EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK } from "../exit-codes.ts";
import type { TurnResult } from "./follow-turn.ts";
import { summaryLines } from "./wording.ts";

/** Prints how it ended and what to do next; the exit code says it to scripts. */
export function reportResult({ terminal }: Context, result: TurnResult, session: string): number {
  const dim = (text: string) => terminal.out(`${terminal.paint("dim", text)}\n`);
  switch (result.status) {
    case "withdrawn":
      dim("message taken back before the model saw it");
      return EXIT_INTERRUPTED;
    case "session-ended":
      dim("the session was ended");
      return EXIT_INTERRUPTED;
    case "left":
      dim(`left; the turn goes on. Watch it: pistis attach ${session}`);
      return EXIT_INTERRUPTED;
    case "ended":
      for (const text of summaryLines(result.summary)) dim(`  ${text}`);
      return exitCodeOf(result.summary.end?.reason);
  }
}

function exitCodeOf(reason: "completed" | "interrupted" | "failed" | "limit" | undefined): number {
  if (reason === "completed") return EXIT_OK;
  return reason === "interrupted" ? EXIT_INTERRUPTED : EXIT_FAILED;
}
