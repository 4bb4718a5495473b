// How an error reaches a person: one line what, one line next.
import { CommanderError } from "commander";
import { z } from "zod";
import { failureOf } from "#shared/errors/errors.ts";
import { EXIT_FAILED, EXIT_OK, EXIT_USAGE } from "./exit-codes.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** The exit code. Commander has already printed what it found wrong with the command line. */
export function reportFailure({ err, paint }: Terminal, error: unknown, verbose: boolean): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
  const { code, message, next } = failureOf(error);
  err(`${paint("red", "pistis:")} ${message}\n`);
  const advice =
    next ?? (code === "internal" ? "This should not happen: run it again with --verbose and report it" : "");
  if (advice !== "") err(`  ${paint("bold", "next:")} ${advice}\n`);
  if (verbose) err(`\n${stackOf(error)}\n`);
  return EXIT_FAILED;
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? error.message;
  const parts = error instanceof AggregateError ? z.array(z.unknown()).parse(error.errors).map(stackOf) : [];
  const cause = error.cause === undefined ? [] : [`caused by: ${stackOf(error.cause)}`];
  return [own, ...parts, ...cause].join("\n");
}
