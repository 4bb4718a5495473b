// A model without intelligence: it takes its steps from the user's message, one per reply. It makes the product
// usable with no key, in demos and in deterministic tests. README.md in this folder documents the forms.
import type { HistoryEntry } from "../../session/history.ts";
import type { Model, ModelReply, ModelRequest, ReplyContent } from "../model.ts";
import { parseScript, type ScriptStep } from "./parse.ts";

type Call = Extract<ScriptStep, { kind: "call" }>;
type Progress = { steps: ScriptStep[]; done: number; failed: number; stopOnFailure: boolean };

const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };

export const FORMS = `I am the script model: I do what your message says, line by line, and nothing else.
  $ COMMAND             runs a command (a trailing backslash goes on; so does a \`\`\`bash block)
  > read PATH           > list PATH           > search PATTERN
  > write PATH          and a fenced block with the content
  > edit PATH           and two fenced blocks: the old text, the new text
  > background COMMAND  starts a command and goes on
  > say TEXT            says it
  & before a step       in the same reply as the step before
  ! stop on failure     ends at the first step that fails`;

export function scriptModel(name: string): Model {
  return {
    name,
    request: async (request) => {
      request.signal.throwIfAborted();
      return reply(request);
    },
  };
}

function reply({ history, onDelta }: ModelRequest): ModelReply {
  const progress = progressOf(history);
  const content = nextContent(progress, `step_${history.length}`);
  for (const part of content) if (part.type === "text") onDelta({ kind: "text", text: part.text });
  const finishReason = content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop";
  return { content, finishReason, usage: NO_TOKENS, costUsd: 0 };
}

/** What is left to do, told from the history alone: a brain that takes over goes on at the same step. */
function progressOf(history: readonly HistoryEntry[]): Progress {
  let progress: Progress = { steps: [], done: 0, failed: 0, stopOnFailure: false };
  for (const entry of history) {
    if (entry.kind === "ended") progress = { steps: [], done: 0, failed: 0, stopOnFailure: false };
    if (entry.kind === "message") progress.steps.push(...parseScript(entry.text));
    if (entry.kind === "reply") takeReply(progress);
    if (entry.kind === "result") {
      progress.done++;
      if (entry.failed) progress.failed++;
    }
  }
  return progress;
}

/** Takes the steps of one reply off: what is said before the next call, that call, and those beside it. */
function takeReply(progress: Progress): { said: string[]; calls: Call[] } {
  const said: string[] = [];
  const calls: Call[] = [];
  for (let step = progress.steps[0]; step !== undefined; step = progress.steps[0]) {
    if (calls.length > 0 && !(step.kind === "call" && step.parallel)) break;
    progress.steps.shift();
    if (step.kind === "stop-on-failure") progress.stopOnFailure = true;
    else if (step.kind === "call") calls.push(step);
    else said.push(step.kind === "say" ? step.text : `I cannot do this: ${step.text}.`);
  }
  return { said, calls };
}

function nextContent(progress: Progress, idPrefix: string): ReplyContent[] {
  const { stopOnFailure, failed } = progress;
  const untouched = progress.done === 0 && progress.steps.length === 0;
  if (stopOnFailure && failed > 0) return [{ type: "text", text: `Stopped: a step failed.\n${summary(progress)}` }];
  const { said, calls } = takeReply(progress);
  if (calls.length === 0) said.push(untouched ? FORMS : summary(progress));
  const text: ReplyContent[] = said.length === 0 ? [] : [{ type: "text", text: said.join("\n") }];
  return [...text, ...calls.map((call, index) => callPart(call, `${idPrefix}_${index}`))];
}

function callPart({ tool, input }: Call, modelCallId: string): ReplyContent {
  return { type: "tool-call", modelCallId, tool, input };
}

function summary({ done, failed }: Progress): string {
  const steps = `${done} ${done === 1 ? "step" : "steps"}`;
  return failed === 0 ? `Done: ${steps}.` : `Done: ${steps}, ${failed} of them failed.`;
}
