import { Command } from "commander";
import { addComposeEnv } from "./compose/compose-env.ts";
import { addPrepare } from "./compose/prepare.ts";
import type { Context } from "./context.ts";
import { addDev } from "./dev/dev.ts";
import { addDoctor } from "./doctor/doctor.ts";
import { addEvents } from "./events/events.ts";
import { addLedger } from "./ledger/ledger.ts";
import { addNatsConfig } from "./nats-config/nats-config.ts";
import { addProjections } from "./projections/projections.ts";
import { addRun } from "./run/run.ts";
import { addDockerFirewall } from "./service/docker-firewall.ts";
import { addServices } from "./service/service.ts";
import { addSetup } from "./service/setup.ts";
import { addAttach } from "./sessions/attach.ts";
import { addEnd, addSessions, addStop } from "./sessions/sessions.ts";
import { addStatus } from "./status/status.ts";

const ABOUT = `
Environment:
  PISTIS_STATE   folder of the install, where --state is not given
  PISTIS_URL     a server elsewhere; PISTIS_TOKEN is its admin token
  NATS_URL       a NATS of your own instead of the embedded one, with PISTIS_NATS_KEYS (see services/cli/README.md)
  DATABASE_URL   a PostgreSQL of your own instead of the embedded one
  NO_COLOR       plain text

Begin with:
  $ pistis doctor
  $ pistis run "fix the failing test" --repo .`;

/** The command tree. `finish` takes the exit code of a command that has one of its own. */
export function newProgram(context: Context, version: string, finish: (exitCode: number) => void): Command {
  const program = new Command("pistis")
    .description("A self-hosted platform for coding agents: keys stay on your server, commands run in a sandbox.")
    .version(version)
    .option("--verbose", "with an error: its whole story")
    .addHelpText("after", ABOUT)
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .showHelpAfterError("  next: see pistis --help")
    .exitOverride()
    .configureOutput({ writeOut: context.terminal.out, writeErr: context.terminal.err });
  addDev(program, context, finish);
  addRun(program, context, finish);
  addSessions(program, context);
  addAttach(program, context, finish);
  addStop(program, context);
  addEnd(program, context);
  addEvents(program, context);
  addDoctor(program, context, finish);
  addStatus(program, context, finish);
  addLedger(program, context, finish);
  addProjections(program, context, finish);
  addNatsConfig(program, context);
  addSetup(program, context);
  addComposeEnv(program, context);
  addPrepare(program, context);
  addDockerFirewall(program, context, finish);
  addServices(program, context, finish);
  for (const command of program.commands)
    command.copyInheritedSettings(program).option("--verbose", "with an error: its whole story");
  return program;
}
