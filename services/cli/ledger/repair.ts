// What `pistis ledger repair` does.
import { mirrorReader } from "#shared/database/mirror.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { planRepair, type RepairPlan, repairLedger } from "#shared/nats/ledger/repair.ts";
import type { Context } from "../context.ts";
import { EXIT_FAILED, EXIT_OK } from "../exit-codes.ts";
import { progress } from "../terminal/progress.ts";
import { plural } from "../terminal/quantities.ts";
import { type Stores, withStores } from "./stores.ts";
import { verificationText, verify } from "./verify.ts";

export type RepairOptions = { dryRun?: boolean; yes?: boolean; state?: string; config?: string };

const COMMAND = "pistis ledger repair";

/** Resolves with the exit code. Throws a Refusal `not_confirmed` when it has something to do and may not. */
export function runRepair(context: Context, options: RepairOptions): Promise<number> {
  const stores = { ...options, command: COMMAND, prepare: true };
  return withStores(context, stores, (opened) => repair(context, opened, options));
}

async function repair(context: Context, stores: Stores, options: RepairOptions): Promise<number> {
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
