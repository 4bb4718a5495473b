// Server-sent events of the OpenAI Responses API.
import type { Json } from "../session/history.ts";
import type { ServedReply } from "./model-server.ts";

/** A reply as its events, in order; the last two are its end. */
export function responsesEvents({ text, reasoning, calls = [], finish, usage }: ServedReply): string[] {
  const items = [
    ...(reasoning === undefined ? [] : [reasoningItem(reasoning)]),
    ...(text === undefined ? [] : [messageItem(text)]),
    ...calls.map(callItem),
  ];
  const isCut = finish === "length";
  const response = {
    id: "resp_1",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    usage: {
      input_tokens: usage?.input ?? 1,
      input_tokens_details: { cached_tokens: usage?.cacheRead ?? 0 },
      output_tokens: usage?.output ?? 1,
      output_tokens_details: { reasoning_tokens: 0 },
    },
  };
  return [
    event("response.created", { response: { id: "resp_1", created_at: 1_700_000_000, model: "served" } }),
    ...items.flatMap((item, index) => item(index)),
    event(isCut ? "response.incomplete" : "response.completed", { response }),
  ];
}

type Item = (index: number) => string[];

function reasoningItem({ text, signature }: { text: string; signature: string }): Item {
  return (index) => [
    event("response.output_item.added", {
      output_index: index,
      item: { id: "rs_1", type: "reasoning", encrypted_content: null },
    }),
    event("response.reasoning_summary_part.added", { item_id: "rs_1", summary_index: 0 }),
    event("response.reasoning_summary_text.delta", { item_id: "rs_1", summary_index: 0, delta: text }),
    event("response.output_item.done", {
      output_index: index,
      item: {
        id: "rs_1",
        type: "reasoning",
        encrypted_content: signature,
        summary: [{ type: "summary_text", text }],
      },
    }),
  ];
}

function messageItem(text: string): Item {
  return (index) => [
    event("response.output_item.added", { output_index: index, item: { id: "msg_1", type: "message" } }),
    event("response.output_text.delta", { item_id: "msg_1", output_index: index, content_index: 0, delta: text }),
    event("response.output_item.done", { output_index: index, item: { id: "msg_1", type: "message" } }),
  ];
}

function callItem({ id, name, input }: { id: string; name: string; input: Json }): Item {
  const json = typeof input === "string" ? input : JSON.stringify(input);
  const base = { id: `fc_${id}`, type: "function_call", call_id: id, name };
  return (index) => [
    event("response.output_item.added", { output_index: index, item: { ...base, arguments: "" } }),
    event("response.function_call_arguments.delta", { item_id: base.id, output_index: index, delta: json }),
    event("response.output_item.done", {
      output_index: index,
      item: { ...base, arguments: json, status: "completed" },
    }),
  ];
}

function event(type: string, data: { [key: string]: Json }): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}
