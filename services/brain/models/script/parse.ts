// Reads the steps of the script model out of a message. Lines that are no step are prose and are left alone.
import type { Json } from "../../session/history.ts";

export type ScriptStep =
  | Readonly<{ kind: "call"; tool: string; input: { readonly [key: string]: Json }; parallel: boolean }>
  | Readonly<{ kind: "say"; text: string }>
  | Readonly<{ kind: "stop-on-failure" }>
  | Readonly<{ kind: "mistake"; text: string }>;

type Cursor = { readonly lines: readonly string[]; at: number };
type Call = Omit<Extract<ScriptStep, { kind: "call" }>, "parallel">;

const FENCE = /^```/;

/** The steps of a message, in order. Pure. */
export function parseScript(text: string): ScriptStep[] {
  const cursor: Cursor = { lines: text.split(/\r?\n/), at: 0 };
  const steps: ScriptStep[] = [];
  while (cursor.at < cursor.lines.length) {
    const step = nextStep(cursor);
    if (step !== undefined) steps.push(step);
  }
  return steps;
}

function nextStep(cursor: Cursor): ScriptStep | undefined {
  const line = cursor.lines[cursor.at++] ?? "";
  const parallel = line.startsWith("& ");
  const body = parallel ? line.slice(2).trimStart() : line.trim();
  if (/^!\s*stop on failure$/i.test(body)) return { kind: "stop-on-failure" };
  if (/^```(bash|sh|shell)\s*$/.test(body)) return asCall(bash(fencedFrom(cursor)), parallel);
  if (body.startsWith("$ ")) return asCall(bash(continued(body.slice(2), cursor)), parallel);
  if (!body.startsWith("> ")) return undefined;
  const [, verb = "", rest = ""] = /^>\s+(\S+)\s*(.*)$/.exec(body) ?? [];
  if (verb === "say") return { kind: "say", text: rest };
  return asCall(toolStep(verb, rest, cursor), parallel);
}

function asCall(step: Call | string, parallel: boolean): ScriptStep {
  return typeof step === "string" ? { kind: "mistake", text: step } : { ...step, parallel };
}

function toolStep(verb: string, rest: string, cursor: Cursor): Call | string {
  const call = (tool: string, input: Call["input"]): Call => ({ kind: "call", tool, input });
  if (rest === "" && verb !== "list") return `\`> ${verb}\` needs something after it`;
  switch (verb) {
    case "read":
      return call("read", { path: rest });
    case "list":
      return call("list", rest === "" ? {} : { path: rest });
    case "search":
      return call("search", { pattern: rest });
    case "background":
      return call("bash", { command: continued(rest, cursor), background: true });
    case "write":
      return writeStep(rest, cursor);
    case "edit":
      return editStep(rest, cursor);
    default:
      return `There is no form \`> ${verb}\``;
  }
}

function writeStep(path: string, cursor: Cursor): Call | string {
  const content = fenced(cursor);
  if (content === undefined) return `\`> write ${path}\` needs a fenced block (\`\`\`) after it`;
  return { kind: "call", tool: "write", input: { path, content: content === "" ? "" : `${content}\n` } };
}

function editStep(path: string, cursor: Cursor): Call | string {
  const before = fenced(cursor);
  const after = before === undefined ? undefined : fenced(cursor);
  if (before === undefined || after === undefined) return `\`> edit ${path}\` needs two fenced blocks: old, then new`;
  return { kind: "call", tool: "edit", input: { path, edits: [{ old: before, new: after }] } };
}

function bash(command: string): Call {
  return { kind: "call", tool: "bash", input: { command } };
}

/** A command goes on while its line ends with a backslash, as in a shell. */
function continued(first: string, cursor: Cursor): string {
  const lines = [first];
  while (lines.at(-1)?.endsWith("\\") && cursor.at < cursor.lines.length) lines.push(cursor.lines[cursor.at++] ?? "");
  return lines.join("\n");
}

/** The next fenced block, if nothing but blank lines stands before it. */
function fenced(cursor: Cursor): string | undefined {
  let at = cursor.at;
  while (at < cursor.lines.length && (cursor.lines[at] ?? "").trim() === "") at++;
  if (!FENCE.test((cursor.lines[at] ?? "").trim())) return undefined;
  cursor.at = at + 1;
  return fencedFrom(cursor);
}

function fencedFrom(cursor: Cursor): string {
  const lines: string[] = [];
  while (cursor.at < cursor.lines.length) {
    const line = cursor.lines[cursor.at++] ?? "";
    if (line.trim() === "```") break;
    lines.push(line);
  }
  return lines.join("\n");
}
