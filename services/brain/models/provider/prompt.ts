// The history as a provider's prompt. Always valid (I6): every call has exactly one result, right after the reply
// that made it, whatever order the ledger has; what the user and Pistis say stands between replies.
import type { JSONObject, LanguageModelV4Message, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { z } from "zod";
import type { ReplyPart } from "#schemas/ledger/events/brain.ts";
import type { CallResult, HistoryEntry, Json } from "../../session/history.ts";

type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];
type ToolContent = Extract<LanguageModelV4Message, { role: "tool" }>["content"];
type ToolCall = Extract<ReplyPart, { type: "tool-call" }>;
type Reply = Extract<HistoryEntry, { kind: "reply" }>;

const OPEN_CALL = "Outcome unknown: it may have partly or fully run.";
const metadata = z.record(z.string(), z.record(z.string(), z.json()));

export function promptOf(system: string, history: readonly HistoryEntry[]): LanguageModelV4Prompt {
  const results = new Map<string, CallResult>();
  for (const entry of history) if (entry.kind === "result") results.set(entry.callId, entry);
  const prompt: LanguageModelV4Prompt = [{ role: "system", content: system }];
  for (const entry of history) {
    if (entry.kind === "reply") prompt.push(...rendered(entry, results));
    else say(prompt, saidBy(entry));
  }
  return prompt;
}

/** Marks what a provider may cache: everything up to the system prompt, and up to the last two user-side messages. */
export function withCacheBreakpoints(prompt: LanguageModelV4Prompt): LanguageModelV4Prompt {
  const userSide = prompt.flatMap(({ role }, index) => (role === "user" || role === "tool" ? [index] : []));
  const marked = new Set([0, ...userSide.slice(-2)]);
  const providerOptions = { anthropic: { cacheControl: { type: "ephemeral" } } };
  return prompt.map((message, index) => (marked.has(index) ? { ...message, providerOptions } : message));
}

function saidBy(entry: Exclude<HistoryEntry, Reply>): string | undefined {
  switch (entry.kind) {
    case "message":
      return entry.text;
    case "notice":
      return `[Pistis] ${entry.text}`;
    case "summary":
      return `[Pistis] The older part of this conversation is left out here. What it came to:\n${entry.text}`;
    case "ended":
      if (entry.reason === "completed") return undefined;
      if (entry.reason === "interrupted") return "[Pistis] The user stopped the turn here.";
      return `[Pistis] The turn ended early here. ${entry.text ?? ""}`.trim();
    case "result":
      return undefined;
  }
}

function say(prompt: LanguageModelV4Prompt, text: string | undefined): void {
  if (text === undefined) return;
  const last = prompt.at(-1);
  if (last?.role === "user") last.content.push({ type: "text", text });
  else prompt.push({ role: "user", content: [{ type: "text", text }] });
}

type Rendered = Readonly<{
  answers: readonly Readonly<{ callId: string; result: CallResult | undefined }>[];
  messages: readonly LanguageModelV4Message[];
}>;

// Entries never change, and all of a conversation is rendered before every request. What is kept is only read.
const kept = new WeakMap<Reply, Rendered>();

function rendered(reply: Reply, results: ReadonlyMap<string, CallResult>): readonly LanguageModelV4Message[] {
  const known = kept.get(reply);
  if (known?.answers.every(({ callId, result }) => results.get(callId) === result)) return known.messages;
  const calls = reply.content.filter((part) => part.type === "tool-call");
  const answers = calls.map(({ callId }) => ({ callId, result: results.get(callId) }));
  const messages = replyMessages(reply, results);
  kept.set(reply, { answers, messages });
  return messages;
}

function replyMessages({ content }: Reply, results: ReadonlyMap<string, CallResult>): LanguageModelV4Message[] {
  const said: AssistantContent = content.flatMap(assistantPart);
  const calls = content.filter((part) => part.type === "tool-call");
  // Providers refuse a message of nothing but reasoning, which a reply cut at its limit can be.
  if (said.every(({ type }) => type === "reasoning")) return [];
  const assistant: LanguageModelV4Message = { role: "assistant", content: said };
  if (calls.length === 0) return [assistant];
  const answered: ToolContent = calls.map((call) => resultPart(call, results.get(call.callId)));
  return [assistant, { role: "tool", content: answered }];
}

function assistantPart(part: ReplyPart): AssistantContent {
  switch (part.type) {
    case "text":
      return part.text.trim() === "" ? [] : [{ type: "text", text: part.text }];
    case "reasoning":
      return [{ type: "reasoning", text: part.text, ...optionsOf(part.providerMetadata) }];
    case "tool-call":
      return [{ type: "tool-call", toolCallId: part.modelCallId, toolName: part.tool, input: objectOf(part.input) }];
  }
}

function optionsOf(stored: Json | undefined): { providerOptions?: Record<string, JSONObject> } {
  const parsed = metadata.safeParse(stored);
  return parsed.success ? { providerOptions: parsed.data } : {};
}

/** Providers refuse a call whose input is no object; what the model really sent stays readable. */
function objectOf(input: Json): Json {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return isObject ? input : { malformed: input };
}

function resultPart({ modelCallId, tool }: ToolCall, result: CallResult | undefined): ToolContent[number] {
  const value = result?.text ?? OPEN_CALL;
  const type = result === undefined || result.failed ? "error-text" : "text";
  return { type: "tool-result", toolCallId: modelCallId, toolName: tool, output: { type, value } };
}
