// `pistis events`: the ledger, of one session or of all, as it is or as it grows.
import type { Command } from "commander";
import { EVENTS_PAGE_MAX, type LedgerMessageView, writer } from "#schemas/api/stream.ts";
import { catalogue, isEventType, type Writer } from "#schemas/ledger/event.ts";
import { didYouMean } from "#shared/config/did-you-mean.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { listSessions, readEvents, type Server } from "../client/api.ts";
import { requireServer } from "../client/find-server.ts";
import { followInstall } from "../client/stream.ts";
import { type Context, folderOf, STATE_OPTION } from "../context.ts";
import { wholeNumber } from "../option-values.ts";
import { durationText } from "../terminal/quantities.ts";
import { eventLines } from "./event-line.ts";

type Options = {
  follow?: boolean;
  session?: string;
  writer?: string;
  type?: string;
  after: number;
  json?: boolean;
  state?: string;
};

type Filter = Readonly<{ session?: string; writer?: Writer; type?: string }>;

const EXAMPLES = `
Examples:
  $ pistis events --follow
  $ pistis events --session ses_01jd3m5x8k
  $ pistis events --writer scheduler --type SandboxFailed --json

Each line is: sequence, time, session, writer, event, facts. --json gives one ledger message per line.`;

export function addEvents(program: Command, context: Context): void {
  program
    .command("events")
    .summary("print the ledger")
    .description("Prints the events of the ledger in order: all that are there, and with --follow what comes.")
    .option("-f, --follow", "go on with what comes, until Ctrl-C")
    .option("--session <id>", "of one session only")
    .option("--writer <service>", `of one writer only: ${writer.options.join(", ")}`)
    .option("--type <event>", "of one type only, e.g. ToolStarted")
    .option("--after <sequence>", "only what was written after this one", wholeNumber(0, Number.MAX_SAFE_INTEGER), 0)
    .option("--json", "one ledger message per line")
    .option(...STATE_OPTION)
    .addHelpText("after", EXAMPLES)
    .action((options: Options) => printEvents(context, options));
}

async function printEvents(context: Context, options: Options): Promise<void> {
  const filter = filterOf(options);
  const server = await requireServer(folderOf(context, options.state), context.environment);
  const leaving = new AbortController();
  const stopListening = context.onStop(() => leaving.abort());
  const print = (message: LedgerMessageView) => {
    if (matches(message, filter)) printMessage(context, message, filter, options.json ?? false);
  };
  try {
    if (options.follow) await follow(context, server, { ...filter, after: options.after }, leaving.signal, print);
    else if (filter.session !== undefined) await printSession(server, filter.session, options.after, print);
    else await printAll(context, server, options.after, leaving.signal, print);
  } finally {
    stopListening();
    leaving.abort();
  }
}

function follow(
  context: Context,
  server: Server,
  query: Filter & { after: number },
  signal: AbortSignal,
  print: (message: LedgerMessageView) => void,
): Promise<void> {
  return read(context, server, query, signal, (message) => {
    print(message);
    return "more";
  });
}

async function printSession(
  server: Server,
  session: string,
  after: number,
  print: (message: LedgerMessageView) => void,
): Promise<void> {
  let cursor = after;
  for (;;) {
    const page = await readEvents(server, session, cursor, EVENTS_PAGE_MAX);
    for (const message of page.messages) print(message);
    if (!page.more) return;
    cursor = page.cursor;
  }
}

/** Up to the message that was the newest when this began: the stream itself has no end. */
async function printAll(
  context: Context,
  server: Server,
  after: number,
  signal: AbortSignal,
  print: (message: LedgerMessageView) => void,
): Promise<void> {
  const last = (await listSessions(server, 1)).sessions[0]?.lastSequence ?? 0;
  if (last <= after) return;
  await read(context, server, { after }, signal, (message) => {
    if (message.sequence <= last) print(message);
    return message.sequence >= last ? "enough" : "more";
  });
}

async function read(
  context: Context,
  server: Server,
  query: Filter & { after: number },
  signal: AbortSignal,
  take: (message: LedgerMessageView) => "more" | "enough",
): Promise<void> {
  for await (const item of followInstall(server, query, signal)) {
    if (item.kind === "reconnecting") context.terminal.err(`connection lost, again in ${durationText(item.afterMs)}\n`);
    if (item.kind === "ledger" && take(item.message) === "enough") return;
  }
}

function filterOf({ session, writer: from, type }: Options): Filter {
  const known = writer.safeParse(from);
  if (from !== undefined && !known.success) throw unknownName("writer", from, writer.options);
  if (type !== undefined && !isEventType(type)) throw unknownName("event type", type, Object.keys(catalogue));
  return {
    ...(session === undefined ? {} : { session }),
    ...(known.success ? { writer: known.data } : {}),
    ...(type === undefined ? {} : { type }),
  };
}

function unknownName(kind: string, name: string, known: readonly string[]): Refusal {
  const near = didYouMean(name, known);
  return new Refusal("unknown_name", `There is no ${kind} ${JSON.stringify(name)}`, {
    next: near === undefined ? `Allowed are ${known.join(", ")}` : `Did you mean ${near}?`,
  });
}

function matches(message: LedgerMessageView, { session, writer: from, type }: Filter): boolean {
  if (session !== undefined && message.session !== session) return false;
  if (from !== undefined && message.writer !== from) return false;
  return type === undefined || message.events.some((event) => event.type === type);
}

function printMessage({ terminal }: Context, message: LedgerMessageView, { type }: Filter, json: boolean): void {
  if (json) {
    terminal.out(`${JSON.stringify(message)}\n`);
    return;
  }
  const events = message.events.filter((event) => type === undefined || event.type === type);
  for (const line of eventLines({ ...message, events }, terminal.paint)) terminal.out(`${line}\n`);
}
