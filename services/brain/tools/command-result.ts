// How a command ended, as a ledger outcome and in words that a model acts on.
import type { ToolOutcome } from "#schemas/ledger/events/brain.ts";
import type { ExecOutcome, ExecResult } from "#schemas/wire/message.ts";
import { excerptText, omittedBytesOf, textOf } from "./excerpt.ts";
import type { ToolResult } from "./tool.ts";

/** How much of an output's start and end the model is given; the rest is there for `bash_output`. */
export const OUTPUT_HEAD_BYTES = 12 * 1024;
export const OUTPUT_TAIL_BYTES = 20 * 1024;

const ASKS = /(\[y\/n\]|\(y\/n\)|\[yes\/no\]|are you sure|do you want to continue|password:|passphrase|ok to proceed)/i;
const ASKS_WITHIN_BYTES = 2_000;
const SIGNAL_CHARACTERS_MAX = 40;

export function commandResult(result: ExecResult, callId: string): ToolResult {
  // The sandbox may send more than it was asked for; the model is never given it.
  const head = Buffer.from(result.head, "base64").subarray(0, OUTPUT_HEAD_BYTES);
  const tail = Buffer.from(result.tail, "base64").subarray(-OUTPUT_TAIL_BYTES);
  const excerpt = { head, tail, bytes: result.outputBytes };
  const output = result.outputBytes === 0 ? "(no output)" : excerptText(excerpt, callId);
  const end = textOf(Buffer.concat([head, tail]).subarray(-ASKS_WITHIN_BYTES));
  const notes = [inWords(result.outcome, callId), ...leftRunning(result, callId), ...hint(result.outcome, end)];
  return {
    outcome: outcomeOf(result.outcome, callId),
    text: `${output.endsWith("\n") ? output : `${output}\n`}[${notes.join(" ")}]`,
    output: { bytes: result.outputBytes, omittedBytes: omittedBytesOf(excerpt) },
  };
}

export function outcomeOf(outcome: ExecOutcome, callId: string): ToolOutcome {
  switch (outcome.status) {
    case "signalled":
      return { status: "signalled", signal: signalName(outcome) };
    case "background":
      return { status: "background", handle: callId };
    default:
      return outcome;
  }
}

function signalName({ signal, outOfMemory }: Extract<ExecOutcome, { status: "signalled" }>): string {
  return (outOfMemory ? `${signal} (out of memory)` : signal).slice(0, SIGNAL_CHARACTERS_MAX);
}

export function inWords(outcome: ExecOutcome, callId: string): string {
  switch (outcome.status) {
    case "exited":
      return `Exit code ${outcome.exitCode}.`;
    case "signalled":
      if (outcome.outOfMemory) return "Killed: the sandbox ran out of memory.";
      return `Ended by signal ${outcome.signal}.`;
    case "timed-out":
      return `Stopped: it did not end within ${outcome.timeoutMs} ms. Give a larger timeoutMs, or background: true.`;
    case "stopped":
      return "Stopped before it ended.";
    case "background":
      return `Running in the background with handle "${callId}"; bash_output reads it, bash_kill ends it.`;
    case "failed":
      return `It could not be started: ${outcome.failure.message}`;
  }
}

function leftRunning({ leftRunning: left, outcome }: ExecResult, callId: string): string[] {
  if (!left || outcome.status === "background") return [];
  return [`Processes that it started go on running; their handle is "${callId}" (bash_output, bash_kill).`];
}

function hint(outcome: ExecOutcome, end: string): string[] {
  const failed = outcome.status !== "background" && !(outcome.status === "exited" && outcome.exitCode === 0);
  if (!failed || !ASKS.test(end)) return [];
  return ["It seems to have asked a question. Standard input is closed: use the option that answers it (such as -y)."];
}
