// One line for each thing that happens in a session. Pure.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { ToolOutcome } from "#schemas/ledger/events/brain.ts";
import { bytesText, costText, durationText, plural } from "../terminal/quantities.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { shownLine } from "../terminal/untrusted.ts";
import type { Summary } from "./summary.ts";

const WRONG_NAMED_MAX = 6;

type Paint = Terminal["paint"];

/** `undefined` for what only a reader of the ledger wants to know. */
export function noteOf(event: PistisEvent): string | undefined {
  switch (event.type) {
    case "TurnTakenOver":
      return `another brain took the turn over (epoch ${event.data.epoch})`;
    case "SandboxNeeded":
      return neededText(event.data.reason);
    case "SandboxCreated":
      return `sandbox made in ${durationText(event.data.durationMs)}`;
    case "SandboxRestarted":
      return `sandbox started again, with its files, in ${durationText(event.data.durationMs)}`;
    case "SandboxJoined":
      return "sandbox joined";
    case "EgressProbed":
      return probedText(event.data);
    case "SandboxStopped":
      return `sandbox stopped: ${shownLine(event.data.reason)}`;
    case "SandboxMissing":
      return "the sandbox is gone";
    case "SandboxDestroyed":
      return "sandbox deleted for good";
    case "SandboxFailed":
      return failureLine("the sandbox failed", event.data.failure);
    case "RepositoryCopied":
      return copiedText(event.data);
    case "RepositoryCopyFailed":
      return failureLine("the repository could not be copied in", event.data.failure);
    case "InterruptRequested":
      return "interrupt asked for";
    case "MessageWithdrawn":
      return "message taken back";
    case "SessionEndRequested":
      return "session end asked for";
    case "SessionEnded":
      return "session ended";
    default:
      return undefined;
  }
}

function neededText(reason: EventOf<"SandboxNeeded">["data"]["reason"]): string {
  if (reason === "absent") return "a sandbox is needed";
  return reason === "unprobed" ? "the sandbox's network is to be checked" : `the sandbox is ${reason}`;
}

function probedText({ passed, findings, durationMs }: EventOf<"EgressProbed">["data"]): string {
  if (passed) return `network lock-down checked: ${plural(findings.length, "way")} tried, ${durationText(durationMs)}`;
  const wrong = findings.filter(({ ok }) => !ok);
  const named = wrong.slice(0, WRONG_NAMED_MAX).map(({ target, outcome }) => `${target} (${outcome})`);
  const more = wrong.length > named.length ? ` and ${wrong.length - named.length} more` : "";
  return `the network lock-down does not hold: ${shownLine(named.join(", "), 500)}${more}`;
}

function copiedText({ commit, branch, bundleBytes, shallow, durationMs }: EventOf<"RepositoryCopied">["data"]): string {
  const what = commit === null ? "empty repository" : `${branch ?? "commit"} at ${commit.slice(0, 10)}`;
  const history = shallow ? ", without its full history" : "";
  return `repository copied in: ${shownLine(what)}, ${bytesText(bundleBytes)}${history}, ${durationText(durationMs)}`;
}

type Failure = { code: string; message: string; next?: string | undefined };

export function failureLine(what: string, { code, message, next }: Failure): string {
  const advice = next === undefined ? "" : ` Next: ${shownLine(next, 500)}`;
  return `${what}: ${shownLine(message, 500)} (${shownLine(code)}).${advice}`;
}

export function outcomeText(outcome: ToolOutcome, paint: Paint): string {
  switch (outcome.status) {
    case "exited":
      return outcome.exitCode === 0 ? paint("green", "✓ exit 0") : paint("red", `✗ exit ${outcome.exitCode}`);
    case "signalled":
      return paint("red", `✗ ended by ${shownLine(outcome.signal)}`);
    case "timed-out":
      return paint("red", `✗ timed out after ${durationText(outcome.timeoutMs)}`);
    case "stopped":
      return paint("yellow", "✗ stopped");
    case "background":
      return paint("green", `✓ goes on in the background as ${shownLine(outcome.handle)}`);
    case "ok":
      return paint("green", "✓");
    case "failed":
      return paint("red", `✗ ${shownLine(outcome.failure.message)}`);
  }
}

export function closingLine(end: EventOf<"TurnEnded">["data"], paint: Paint): string {
  if (end.reason === "completed") return paint("green", "✓ turn completed");
  if (end.reason === "interrupted") return paint("yellow", "✗ turn interrupted");
  const what = end.reason === "limit" ? "turn stopped by a limit" : "turn failed";
  return paint("red", `✗ ${end.failure === undefined ? what : failureLine(what, end.failure)}`);
}

/** The last lines of `pistis run`. */
export function summaryLines(summary: Summary): string[] {
  const { startedAt, endedAt } = summary;
  const took =
    startedAt === undefined || endedAt === undefined ? [] : [durationText(Date.parse(endedAt) - Date.parse(startedAt))];
  const tokens = summary.inputTokens + summary.outputTokens;
  const facts = [
    ...took,
    plural(summary.replies, "model reply").replace("replys", "replies"),
    plural(summary.calls, "call"),
    ...(tokens === 0 ? [] : [`${summary.inputTokens} tokens in, ${summary.outputTokens} out`]),
    costText(summary.costUsd, summary.costComplete),
  ];
  const files = summary.filesChanged.map((path) => shownLine(path));
  return [facts.join(" · "), ...(files.length === 0 ? [] : [`changed by write and edit: ${files.join(", ")}`])];
}
