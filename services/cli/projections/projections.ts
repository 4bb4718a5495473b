// `pistis projections`: makes the read models anew, or proves that doing so would change nothing.
import type { Command } from "commander";
import { type Context, STATE_OPTION } from "../context.ts";
import type { RebuildOptions } from "./rebuild.ts";

const HELP = `
The read models (the list of sessions and what each stands at) are made from the mirror alone. Readers see the old rows
until the new ones are all there. With --check the mirror is replayed aside and compared row by row: it names the first
row that differs, with exit code 1, and changes nothing. Without it, what the mirror lacks of the ledger is copied first:
rows that were lost, and what the projector parked, once this version can read it. What is still parked is in no read
model: it is listed. Update and start the projector anew before: it remembers the newest sessions as they were.

Examples:
  $ pistis projections rebuild --check
  $ pistis projections rebuild`;

export function addProjections(program: Command, context: Context, finish: (exitCode: number) => void): void {
  const projections = program
    .command("projections")
    .summary("make the read models anew, or check them")
    .description("The read models in PostgreSQL.")
    .copyInheritedSettings(program);
  projections
    .command("rebuild")
    .copyInheritedSettings(projections)
    .summary("make the read models anew from the mirror")
    .description(
      "Copies what the mirror lacks of the ledger, drops the read models and replays the mirror to the same rows.",
    )
    .option("--check", "change nothing: compare with what a rebuild would make")
    .option("--json", "as one JSON document")
    .option("--config <file>", "pistis.json, for ledger.shards (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .option("--verbose", "with an error: its whole story")
    .addHelpText("after", HELP)
    .action(async (options: RebuildOptions) => {
      const { rebuild } = await import("./rebuild.ts");
      finish(await rebuild(context, options));
    });
}
