// Server-sent events of OpenAI chat completions, as most other servers speak them too.
import type { Json } from "../session/history.ts";
import type { ServedReply } from "./model-server.ts";

/** A reply as its events, in order; the last three are its end. */
export function chatEvents({ text, calls = [], finish, usage }: ServedReply): string[] {
  const reason = finish === "length" ? "length" : calls.length > 0 ? "tool_calls" : "stop";
  const toolCalls = calls.map(({ id, name, input }, index) => ({
    index,
    id,
    type: "function",
    function: { name, arguments: typeof input === "string" ? input : JSON.stringify(input) },
  }));
  return [
    chunk([{ index: 0, delta: { role: "assistant", content: text ?? null }, finish_reason: null }]),
    ...toolCalls.map((call) => chunk([{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }])),
    chunk([{ index: 0, delta: {}, finish_reason: reason }]),
    chunk([], {
      prompt_tokens: usage?.input ?? 1,
      completion_tokens: usage?.output ?? 1,
      total_tokens: (usage?.input ?? 1) + (usage?.output ?? 1),
      prompt_tokens_details: { cached_tokens: usage?.cacheRead ?? 0 },
    }),
    "data: [DONE]\n\n",
  ];
}

function chunk(choices: Json[], usage?: Json): string {
  const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000, model: "served", choices };
  return `data: ${JSON.stringify(usage === undefined ? base : { ...base, usage })}\n\n`;
}
