// `pistis ledger verify`.
import type { Command } from "commander";
import { type Context, STATE_OPTION } from "../context.ts";
import type { VerifyOptions } from "./verify.ts";

const HELP = `
It follows every session's chain of hashes from its first message to its last, in NATS and in PostgreSQL, compares the
two, and names the first bad message of each session. It changes nothing. While \`pistis dev\` or services run it asks
their servers; when nothing runs it starts the embedded ones for as long as it takes. Exit code 1 when something is bad.

Examples:
  $ pistis ledger verify
  $ pistis ledger verify --session ses_01jd3m5x8k --json`;

export function addVerify(ledger: Command, context: Context, finish: (exitCode: number) => void): void {
  ledger
    .command("verify")
    .summary("prove that the ledger and its mirror are whole and the same")
    .description("Proves that the ledger and its mirror are whole and the same.")
    .option("--session <id>", "this session only")
    .option("--json", "as one JSON document")
    .option("--config <file>", "pistis.json, for ledger.shards (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", HELP)
    .action(async (options: VerifyOptions) => {
      const { runVerify } = await import("./verify.ts");
      finish(await runVerify(context, options));
    });
}
