// `pistis status`: how far every service has come with the ledger.
import type { Command } from "commander";
import { type Context, STATE_OPTION } from "../context.ts";
import type { StatusOptions } from "./report.ts";

const HELP = `
For each service: the last stream sequence that it was given and that it has handled, and how many messages it has before
it (lag). The projector's lag is how far the mirror and the read models are behind. Parked is what a consumer gave up,
for a person to look at: \`pistis ledger verify\` and the service's log say why. Exit code 1 when the ledger has lost
messages that PostgreSQL has. Where sandboxes are kept warm (sandboxes.warm), the last line counts them.

Examples:
  $ pistis status
  $ pistis status --json`;

export function addStatus(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program
    .command("status")
    .summary("how far every service has come with the ledger")
    .description("Shows how far every service has come with the ledger, by sequence.")
    .option("--json", "as one JSON document, per shard")
    .option("--config <file>", "pistis.json, for ledger.shards (default: ./pistis.json, if there is one)")
    .option(...STATE_OPTION)
    .addHelpText("after", HELP)
    .action(async (options: StatusOptions) => {
      const { reportStatus } = await import("./report.ts");
      finish(await reportStatus(context, options));
    });
}
