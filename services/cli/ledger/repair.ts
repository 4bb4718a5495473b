// `pistis ledger repair`.
import type { Command } from "commander";
import { mirrorReader } from "#shared/database/mirror.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { planRepair, type RepairPlan, repairLedger } from "#shared/nats/ledger/repair.ts";
import { type Context, STATE_OPTION } from "../context.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { progress } from "../terminal/progress.ts";
import { plural } from "../terminal/quantities.ts";
import { type Stores, withStores } from "./stores.ts";
import { verificationText, verify } from "./verify.ts";

type Options = { dryRun?: boolean; yes?: boolean; state?: string; config?: string };

const COMMAND = "pistis ledger repair";
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
    .action(async (options: Options) => {
      const stores = { ...options, command: COMMAND, prepare: true };
      finish(await withStores(context, stores, (opened) => repair(context, opened, options)));
    });
}

/** The exit code. */
async function repair(context: Context, stores: Stores, options: Options): Promise<number> {
  const { terminal } = context;
  const parts = { ...stores, mirror: mirrorReader(stores.database) };
  const plan = await planRepair(parts);
  if (plan === undefined) {
    terminal.out("nothing is missing: the ledger has all that PostgreSQL has\n");
    return EXIT_OK;
  }
  terminal.out(planText(plan));
  if (options.dryRun) return EXIT_OK;
  if (!options.yes) {
    throw new Refusal("not_confirmed", "Nothing is changed yet", { next: `${COMMAND} --yes` });
  }
  const { messages, lost } = await repairLedger(
    parts,
    plan,
    progress(terminal, "put back up to", () => plan.upTo),
  );
  terminal.out(`put back ${plural(messages, "message")}\n`);
  if (lost.length > 0) terminal.out(`lost for good: ${lost.slice(0, 20).join(", ")}\n`);
  const found = await verify(context, stores, {});
  terminal.out(verificationText(context, found));
  return found.faultySessions === 0 ? EXIT_OK : EXIT_FAILED;
}

function planText({ after, upTo, messages, lost }: RepairPlan): string {
  const gone = lost === 0 ? "" : `; ${plural(lost, "message")} of them in no copy, whose places will be marked`;
  return `the ledger ends at ${after}, its copy in PostgreSQL at ${upTo}\nto put back: ${plural(messages, "message")}${gone}\n`;
}
