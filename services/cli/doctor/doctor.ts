// `pistis doctor`: what is missing on this machine and how to get it.
import type { Command } from "commander";
import { type Context, STATE_OPTION } from "../context.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import type { Style } from "../terminal/terminal.ts";
import { shownLine } from "../terminal/untrusted.ts";
import type { Check } from "./check.ts";
import type { DoctorOptions, Findings } from "./run-checks.ts";

const FOUND_CHARACTERS_MAX = 400;

const STYLES: Record<Check["status"], Style> = { ok: "green", warn: "yellow", missing: "red" };

export function addDoctor(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program
    .command("doctor")
    .summary("say what is missing and how to get it")
    .description("Tries everything that Pistis needs on this machine. Exit code 1 when something is missing.")
    .option("--json", "as one JSON document")
    .option("--config <file>", "pistis.json to check (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", "\nExamples:\n  $ pistis doctor\n  $ pistis doctor --json")
    .action(async (options: DoctorOptions) => {
      const { examine } = await import("./run-checks.ts");
      const { checks, isolation } = await examine(context, options);
      context.terminal.out(
        options.json
          ? `${JSON.stringify({ checks, isolation }, undefined, 2)}\n`
          : checksText(context, checks) + isolationText(isolation),
      );
      finish(checks.some(({ status }) => status === "missing") ? EXIT_FAILED : EXIT_OK);
    });
}

export function isolationText({ holds, doesNotHold }: Findings["isolation"]): string {
  const listed = (lines: readonly string[]) => lines.map((line) => `  - ${line}\n`).join("");
  return `\nA local sandbox isolates here:\n${listed(holds)}and does not:\n${listed(doesNotHold)}`;
}

export function checksText({ terminal }: Pick<Context, "terminal">, checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks
    .map(({ name, status, found, next }) => {
      const line = `${terminal.paint(STYLES[status], status.padEnd(7))}  ${name.padEnd(width)}  ${shownLine(found, FOUND_CHARACTERS_MAX)}\n`;
      return next === undefined ? line : `${line}${" ".repeat(9)}next: ${next}\n`;
    })
    .join("");
}
