// `pistis ledger`: proves the event log and puts back what it lost.
import type { Command } from "commander";
import type { Context } from "../context.ts";
import { addRepair } from "./repair-command.ts";
import { addVerify } from "./verify-command.ts";

export function addLedger(program: Command, context: Context, finish: (exitCode: number) => void): void {
  const ledger = program
    .command("ledger")
    .summary("prove the event log; put back what it lost")
    .description("The event log, in NATS, and its second copy, the mirror in PostgreSQL.")
    .copyInheritedSettings(program);
  addVerify(ledger, context, finish);
  addRepair(ledger, context, finish);
  for (const command of ledger.commands)
    command.copyInheritedSettings(program).option("--verbose", "with an error: its whole story");
}
