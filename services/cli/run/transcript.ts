// A session as it happens, for people. Live text comes first and the ledger completes it: what a reply or a command
// said is printed once, whether its live copy arrived whole, in part or not at all.
import { z } from "zod";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { LiveMessage } from "#schemas/live/live.ts";
import { newPage, type Page } from "../terminal/page.ts";
import { bytesText, durationText } from "../terminal/quantities.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { shown, shownLine } from "../terminal/untrusted.ts";
import { closingLine, noteOf, outcomeText } from "./wording.ts";

const OUTPUT_KEPT_CHARACTERS_MAX = 64 * 1024;
const OUTPUT_LINES_MAX = 400;
const RESULT_LINES_MAX = 12;
const TOLD_REPLIES_MAX = 100;
const MESSAGE_LINES_MAX = 6;

type Call = { title: string; live: string; skippedBytes: number };

export type Transcript = Readonly<{
  ledger: (message: LedgerMessageView) => void;
  live: (message: LiveMessage) => void;
  note: (text: string) => void;
}>;

type State = {
  readonly terminal: Terminal;
  readonly page: Page;
  /** What the live stream said of replies that the ledger has not yet told. */
  replies: Map<string, string>;
  /** Replies that the ledger has told: live text that comes after that is late. */
  told: Set<string>;
  calls: Map<string, Call>;
  lastProgress: string;
};

export function newTranscript(terminal: Terminal): Transcript {
  const page = newPage(terminal);
  const state: State = { terminal, page, replies: new Map(), told: new Set(), calls: new Map(), lastProgress: "" };
  return {
    ledger: (message) => {
      for (const event of message.events) tellEvent(state, event);
    },
    live: (message) => tellLive(state, message),
    note: page.note,
  };
}

function tellLive(state: State, message: LiveMessage): void {
  switch (message.kind) {
    case "text-delta":
      if (state.told.has(message.replyId)) break;
      state.replies.set(message.replyId, (state.replies.get(message.replyId) ?? "") + message.text);
      state.page.say(message.replyId, shown(message.text));
      break;
    case "output":
      tellOutput(state, message);
      break;
    case "progress":
      tellProgress(state, message);
      break;
    case "reasoning-delta":
      break;
  }
}

function tellOutput(state: State, message: Extract<LiveMessage, { kind: "output" }>): void {
  const call = state.calls.get(message.callId);
  if (call === undefined) return;
  call.skippedBytes += message.skippedBytes;
  if (call.live.length < OUTPUT_KEPT_CHARACTERS_MAX) call.live += message.text;
  if (message.skippedBytes > 0) state.page.note(`… ${bytesText(message.skippedBytes)} not shown …`);
  state.page.say(message.callId, shown(message.text, state.terminal.coloured), "  ");
}

function tellProgress(state: State, message: Extract<LiveMessage, { kind: "progress" }>): void {
  if (message.step === state.lastProgress) return;
  state.lastProgress = message.step;
  state.page.note(shownLine(message.text));
}

function tellEvent(state: State, event: PistisEvent): void {
  switch (event.type) {
    case "MessagePosted":
      tellMessage(state, event.data.text);
      break;
    case "ModelReplied":
      tellReply(state, event.data);
      break;
    case "ToolStarted":
      tellCall(state, event.data.callId, event.data.tool);
      break;
    case "ToolDone":
      tellResult(state, event.data);
      break;
    case "ToolOutcomeUnknown":
    case "ToolNotRun":
    case "ToolRefused":
      state.page.line(state.terminal.paint("yellow", `  ! ${shown(event.data.text).trimEnd()}`));
      break;
    case "TurnEnded":
      state.page.line(closingLine(event.data, state.terminal.paint));
      break;
    default: {
      const text = noteOf(event);
      if (text !== undefined) state.page.note(text);
    }
  }
}

function tellMessage(state: State, text: string): void {
  const lines = shown(text).trimEnd().split("\n");
  for (const part of lines.slice(0, MESSAGE_LINES_MAX)) state.page.line(state.terminal.paint("cyan", `> ${part}`));
  if (lines.length > MESSAGE_LINES_MAX) state.page.note(`… ${lines.length - MESSAGE_LINES_MAX} more lines`);
}

/** Prints what the live stream left out of the reply's text, and remembers what its calls ask for. */
function tellReply(state: State, reply: EventOf<"ModelReplied">["data"]): void {
  const text = reply.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  const live = state.replies.get(reply.replyId) ?? "";
  state.replies.delete(reply.replyId);
  remember(state.told, reply.replyId);
  if (text.startsWith(live)) state.page.say(reply.replyId, shown(text.slice(live.length)));
  else state.page.say(`${reply.replyId} whole`, shown(text));
  for (const part of reply.content) {
    if (part.type !== "tool-call") continue;
    state.calls.set(part.callId, { title: titleOf(part.tool, part.input), live: "", skippedBytes: 0 });
  }
}

function remember(told: Set<string>, replyId: string): void {
  told.add(replyId);
  const [oldest] = told;
  if (told.size > TOLD_REPLIES_MAX && oldest !== undefined) told.delete(oldest);
}

function tellCall(state: State, callId: string, tool: string): void {
  state.page.line(state.terminal.paint("bold", state.calls.get(callId)?.title ?? shownLine(tool)));
}

function tellResult(state: State, done: EventOf<"ToolDone">["data"]): void {
  const call = state.calls.get(done.callId);
  state.calls.delete(done.callId);
  if (call === undefined || call.live === "") tellExcerpt(state, done);
  else tellRest(state, call, done);
  const facts = [outcomeText(done.outcome, state.terminal.paint), durationText(done.durationMs)];
  if (done.output !== undefined) facts.push(bytesText(done.output.bytes));
  state.page.line(`  ${facts.join(state.terminal.paint("dim", " · "))}`);
}

/** A command's text for the model ends with a line in brackets that says how it ended, which is told by itself here. */
function outputIn({ text, output }: EventOf<"ToolDone">["data"]): string {
  return output === undefined ? text : text.replace(/\n?\[[^\n]*\]$/, "");
}

/** Without a live copy: the first lines of what the model is given, of a command's output nearly all. */
function tellExcerpt(state: State, done: EventOf<"ToolDone">["data"]): void {
  const lines = shown(outputIn(done), state.terminal.coloured).trimEnd().split("\n");
  if (lines.length === 1 && lines[0] === "") return;
  const linesMax = done.output === undefined ? RESULT_LINES_MAX : OUTPUT_LINES_MAX;
  for (const part of lines.slice(0, linesMax)) state.page.line(`  ${part}`);
  if (lines.length > linesMax) state.page.note(`… ${lines.length - linesMax} more lines`);
}

/** The live copy may lack its end, when the ledger was faster. */
function tellRest(state: State, call: Call, done: EventOf<"ToolDone">["data"]): void {
  const wanted = done.output?.bytes ?? 0;
  if (Buffer.byteLength(call.live) + call.skippedBytes >= wanted || call.live.length >= OUTPUT_KEPT_CHARACTERS_MAX)
    return;
  const output = outputIn(done);
  const start = output.indexOf(call.live);
  const complete = done.output?.omittedBytes === 0 && start >= 0;
  if (!complete) state.page.note(`… the rest of ${bytesText(wanted)} was not shown live …`);
  const rest = complete ? output.slice(start + call.live.length) : "";
  state.page.say(done.callId, shown(rest, state.terminal.coloured), "  ");
}

const bashInput = z.object({ command: z.string() });
const fileInput = z.object({ path: z.string() });
const searchInput = z.object({ pattern: z.string() });

function titleOf(tool: string, input: unknown): string {
  const command = bashInput.safeParse(input);
  if (tool === "bash" && command.success) return `$ ${shown(command.data.command).trimEnd().replace(/\n/g, "\n  ")}`;
  const search = searchInput.safeParse(input);
  const file = fileInput.safeParse(input);
  const about = search.success ? JSON.stringify(search.data.pattern) : file.success ? file.data.path : "";
  return shownLine(`${tool} ${about}`);
}
