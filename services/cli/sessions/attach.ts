// `pistis attach`: watch a session, and say something to it.
import { type Command, Option } from "commander";
import { EVENTS_PAGE_MAX } from "#schemas/api/stream.ts";
import { newId } from "#shared/ids/ids.ts";
import { getSession, postMessage, type Server } from "../client/api.ts";
import { requireServer } from "../client/find-server.ts";
import { followSession, type SessionStart } from "../client/stream.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { EXIT_OK } from "../exit-codes.ts";
import { wholeNumber } from "../option-values.ts";
import { followTurn } from "../run/follow-turn.ts";
import { reportResult } from "../run/report-result.ts";
import { newTranscript } from "../run/transcript.ts";
import { durationText } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";

type Options = { message?: string; queue?: boolean; last: number; all?: boolean; history: boolean; state?: string };

const LAST_DEFAULT = 100;

const EXAMPLES = `
Examples:
  $ pistis attach ses_01jd3m5x8k
  $ pistis attach ses_01jd3m5x8k --all
  $ pistis attach ses_01jd3m5x8k --message "now add a test"
  $ pistis attach ses_01jd3m5x8k --message "then tidy up" --queue --no-history

Without --message, Ctrl-C leaves and the session goes on. With it, Ctrl-C interrupts the turn and a second one leaves.`;

export function addAttach(program: Command, context: Context, finish: (exitCode: number) => void): void {
  program
    .command("attach")
    .summary("watch a session and go on with it")
    .description("Shows what a session has done and follows it. With --message: until the turn that answers is over.")
    .argument("<session>", "its id, from pistis sessions")
    .option("--message <text>", "say this to the agent")
    .option("--queue", "with --message: after the open turn, instead of at its next step")
    .addOption(
      new Option("--last <count>", "begin with so many of its newest ledger messages")
        .argParser(wholeNumber(1, EVENTS_PAGE_MAX))
        .default(LAST_DEFAULT),
    )
    .option("--all", "begin with its first one, however many there are")
    .option("--no-history", "only what comes from now on")
    .option(...STATE_OPTION)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, options: Options) => finish(await attach(context, session, options)));
}

async function attach(context: Context, session: string, options: Options): Promise<number> {
  const server = await requireServer(folderOf(context, options.state), context.environment);
  const { title, status, lastSequence } = await getSession(server, session);
  context.terminal.out(`${context.terminal.paint("dim", `${session} · ${status} · ${shownLine(title, 100)}`)}\n`);
  const start = startOf(options, lastSequence);
  if (options.message === undefined) return watch(context, server, session, start);
  const messageId = newId("message");
  const delivery = options.queue ? "queue" : "steer";
  await postMessage(server, session, { text: options.message, messageId, delivery });
  const result = await followTurn(context, newTranscript(context.terminal), { server, session, messageId, start });
  return reportResult(context, result, session);
}

function startOf({ last, all = false, history }: Options, lastSequence: number): SessionStart {
  if (!history) return lastSequence;
  return all ? 0 : { last };
}

async function watch(context: Context, server: Server, session: string, start: SessionStart): Promise<number> {
  const leaving = new AbortController();
  const stopListening = context.onStop(() => leaving.abort());
  const transcript = newTranscript(context.terminal);
  try {
    for await (const item of followSession(server, session, start, leaving.signal)) {
      if (item.kind === "live") transcript.live(item.message);
      if (item.kind === "reconnecting") transcript.note(`connection lost, again in ${durationText(item.afterMs)}`);
      if (item.kind !== "ledger") continue;
      transcript.ledger(item.message);
      if (item.message.events.some(({ type }) => type === "SessionEnded")) return EXIT_OK;
    }
    return EXIT_OK;
  } finally {
    stopListening();
    leaving.abort();
  }
}
