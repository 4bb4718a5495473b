// Server-sent events of the Anthropic Messages API.
import type { Json } from "../session/history.ts";
import type { ServedReply } from "./model-server.ts";

type Block = { start: Json; deltas: Json[] };

/** A reply as its events, in order; the last three are its end. */
export function anthropicEvents({ text, reasoning, calls = [], finish, usage }: ServedReply): string[] {
  const blocks: Block[] = [
    ...(reasoning === undefined ? [] : [thinking(reasoning)]),
    ...(text === undefined ? [] : [said(text)]),
    ...calls.map(({ id, name, input }) => toolUse(id, name, input)),
  ];
  const stop = finish === "length" ? "max_tokens" : calls.length > 0 ? "tool_use" : "end_turn";
  return [
    event("message_start", { message: message(usage) }),
    ...blocks.flatMap(blockEvents),
    event("message_delta", {
      delta: { stop_reason: stop, stop_sequence: null },
      usage: { output_tokens: usage?.output ?? 1 },
    }),
    event("message_stop", {}),
  ];
}

function message(usage: ServedReply["usage"]): Json {
  return {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "served",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      input_tokens: usage?.input ?? 1,
      output_tokens: 1,
      cache_read_input_tokens: usage?.cacheRead ?? 0,
      cache_creation_input_tokens: usage?.cacheWrite ?? 0,
    },
  };
}

function thinking({ text, signature }: { text: string; signature: string }): Block {
  return {
    start: { type: "thinking", thinking: "", signature: "" },
    deltas: [
      { type: "thinking_delta", thinking: text },
      { type: "signature_delta", signature },
    ],
  };
}

function said(text: string): Block {
  const half = Math.ceil(text.length / 2);
  const deltas = [text.slice(0, half), text.slice(half)].filter((part) => part !== "");
  return { start: { type: "text", text: "" }, deltas: deltas.map((part) => ({ type: "text_delta", text: part })) };
}

function toolUse(id: string, name: string, input: Json): Block {
  const json = typeof input === "string" ? input : JSON.stringify(input);
  return {
    start: { type: "tool_use", id, name, input: {} },
    deltas: [{ type: "input_json_delta", partial_json: json }],
  };
}

function blockEvents({ start, deltas }: Block, index: number): string[] {
  return [
    event("content_block_start", { index, content_block: start }),
    ...deltas.map((delta) => event("content_block_delta", { index, delta })),
    event("content_block_stop", { index }),
  ];
}

function event(type: string, data: { [key: string]: Json }): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}
