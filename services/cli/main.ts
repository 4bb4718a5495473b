// The command line: the only file of it that reads the process's own environment, streams and signals.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Context } from "./context.ts";
import { EXIT_OK } from "./exit-codes.ts";
import { reportFailure } from "./failure.ts";
import { newProgram } from "./program.ts";
import { openTerminal } from "./terminal/terminal.ts";

/** SIGHUP: the terminal was closed. */
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const LEFTOVERS_MS_MAX = 2_000;

const packageFile = join(import.meta.dirname, "..", "..", "package.json");
const { version } = z.object({ version: z.string() }).parse(JSON.parse(readFileSync(packageFile, "utf8")));

const context: Context = {
  environment: process.env,
  cwd: process.cwd(),
  terminal: openTerminal(process.stdout, process.stderr, process.env),
  onStop: (handle) => {
    for (const signal of STOP_SIGNALS) process.on(signal, handle);
    return () => {
      for (const signal of STOP_SIGNALS) process.off(signal, handle);
    };
  },
};

// A reader that has enough (`pistis events | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? EXIT_OK : 1));

let exitCode = EXIT_OK;
try {
  await newProgram(context, version, (code) => {
    exitCode = code;
  }).parseAsync(process.argv);
} catch (error) {
  exitCode = reportFailure(context.terminal, error, process.argv.includes("--verbose"));
}
process.exitCode = exitCode;
// Everything is closed by now. Should something have been forgotten, it must not keep a person waiting.
setTimeout(() => process.exit(), LEFTOVERS_MS_MAX).unref();
