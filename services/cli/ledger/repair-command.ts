// `pistis ledger repair`.
import type { Command } from "commander";
import { type Context, STATE_OPTION } from "../context.ts";
import type { RepairOptions } from "./repair.ts";

const HELP = `
When the NATS store has lost its end (a disk, an old backup, a store that is gone), every service refuses to start with
\`ledger_behind_mirror\`. This puts the missing messages back from PostgreSQL, in order: same bytes, ids and subjects, and
the same sequences, which is what versions are made of. Then it verifies everything. Nothing may run meanwhile.
It may be broken off and run again at any time.

A message that PostgreSQL has not either is lost for good: its place is filled with a mark, and its session ends
before it. Sessions that run a command then are told of it as of any crash: look at them.

It refuses with \`ledger_diverged\` when something was written after the loss, because those sequences are taken. Then
either put an undamaged copy of the NATS store back, or, to let the copy in PostgreSQL win, keep a copy of the NATS
store, empty it, and run this again: what was written after the loss is then gone.

Examples:
  $ pistis ledger repair --dry-run
  $ pistis ledger repair --yes`;

export function addRepair(ledger: Command, context: Context, finish: (exitCode: number) => void): void {
  ledger
    .command("repair")
    .summary("put back what NATS lost, from PostgreSQL")
    .description("Puts messages that NATS has lost at the ledger's end back from their copy in PostgreSQL.")
    .option("--dry-run", "only say what would be done")
    .option("--yes", "do it")
    .option("--config <file>", "pistis.json, for ledger.shards (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", HELP)
    .action(async (options: RepairOptions) => {
      const { runRepair } = await import("./repair.ts");
      finish(await runRepair(context, options));
    });
}
