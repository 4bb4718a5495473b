// `pistis sessions`, `pistis stop` and `pistis end`.
import type { Command } from "commander";
import type { SessionOverview } from "#schemas/api/session.ts";
import { endSession, interruptTurn, listSessions, type Server } from "../client/api.ts";
import { requireServer } from "../client/find-server.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { wholeNumber } from "../option-values.ts";
import { costText, durationText, table } from "../terminal/quantities.ts";
import { shownLine } from "../terminal/untrusted.ts";

const LIMIT_DEFAULT = 20;
const PAGE_MAX = 200;
const TITLE_CHARACTERS_MAX = 60;

type ListOptions = { limit: number; json?: boolean; state?: string };
type StateOption = { state?: string };

export function addSessions(program: Command, context: Context): void {
  program
    .command("sessions")
    .summary("list sessions")
    .description("Lists sessions, the one written to last first.")
    .option("--limit <count>", "how many", wholeNumber(1, 1_000_000), LIMIT_DEFAULT)
    .option("--json", "one session per line, as the API gives it")
    .option(...STATE_OPTION)
    .addHelpText("after", "\nExamples:\n  $ pistis sessions\n  $ pistis sessions --limit 200 --json")
    .action((options: ListOptions) => printSessions(context, options));
}

export function addStop(program: Command, context: Context): void {
  program
    .command("stop")
    .summary("stop a session's open turn")
    .description("Stops the open turn: its running command is ended and no new one starts. The session stays.")
    .argument("<session>", "its id, from pistis sessions")
    .option(...STATE_OPTION)
    .addHelpText("after", "\nExample:\n  $ pistis stop ses_01jd3m5x8k")
    .action(async (session: string, options: StateOption) => {
      const { turnId } = await interruptTurn(await serverOf(context, options), session);
      context.terminal.out(`turn ${turnId} is asked to stop\n`);
    });
}

export function addEnd(program: Command, context: Context): void {
  program
    .command("end")
    .summary("end a session and delete its sandbox")
    .description("Ends a session. Its sandbox is deleted for good; its ledger stays.")
    .argument("<session>", "its id, from pistis sessions")
    .option(...STATE_OPTION)
    .addHelpText("after", "\nExample:\n  $ pistis end ses_01jd3m5x8k")
    .action(async (session: string, options: StateOption) => {
      const { status } = await endSession(await serverOf(context, options), session);
      context.terminal.out(`session ${session} ${status === "ended" ? "is ended" : "is ending"}\n`);
    });
}

function serverOf(context: Context, { state }: StateOption): Promise<Server> {
  return requireServer(folderOf(context, state), context.environment);
}

async function printSessions(context: Context, options: ListOptions): Promise<void> {
  const server = await serverOf(context, options);
  const sessions = await newestSessions(server, options.limit);
  if (options.json) {
    for (const session of sessions) context.terminal.out(`${JSON.stringify(session)}\n`);
  } else if (sessions.length === 0) {
    context.terminal.out('no sessions yet; for example: pistis run "fix the failing test" --repo .\n');
  } else {
    const head = ["SESSION", "STATUS", "SANDBOX", "MODEL", "CALLS", "COST", "UPDATED", "TITLE"];
    context.terminal.out(table([head, ...sessions.map((session) => row(session, Date.now()))]));
  }
}

async function newestSessions(server: Server, limit: number): Promise<SessionOverview[]> {
  const sessions: SessionOverview[] = [];
  let cursor: string | undefined;
  do {
    const page = await listSessions(server, Math.min(limit - sessions.length, PAGE_MAX), cursor);
    sessions.push(...page.sessions);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && sessions.length < limit);
  return sessions;
}

function row(session: SessionOverview, nowMs: number): string[] {
  return [
    session.id,
    statusText(session),
    session.sandbox.state,
    shownLine(session.model, 30),
    String(session.counts.toolCalls),
    costText(session.costUsd, session.costComplete),
    `${durationText(Math.max(0, nowMs - Date.parse(session.updatedAt)))} ago`,
    shownLine(session.title, TITLE_CHARACTERS_MAX),
  ];
}

function statusText({ status, lastTurn, queuedMessages }: SessionOverview): string {
  const turn = status === "idle" && lastTurn !== null ? lastTurn.reason : status;
  return queuedMessages === 0 ? turn : `${turn} +${queuedMessages} queued`;
}
