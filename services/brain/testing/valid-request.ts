// What Anthropic's API refuses in a request's messages, as errors: tests hold what the brain sends against it.
import { z } from "zod";

const block = z.looseObject({ type: z.string(), id: z.string().optional(), tool_use_id: z.string().optional() });
const message = z.looseObject({ role: z.enum(["user", "assistant"]), content: z.array(block).min(1) });
const request = z.looseObject({ max_tokens: z.number().int().positive(), messages: z.array(message).min(1) });

type Message = z.output<typeof message>;

/** Throws with the first reason for which a provider would answer 400. */
export function checkRequest(body: string): void {
  const { messages } = request.parse(JSON.parse(body));
  if (messages[0]?.role !== "user") throw new Error("The first message is not the user's");
  const ids = messages.flatMap(callsOf);
  if (new Set(ids).size !== ids.length) throw new Error(`A call's id comes twice: ${ids.join(", ")}`);
  messages.forEach((at, index) => {
    const before = messages[index - 1];
    if (before?.role === at.role) throw new Error(`Message ${index} has the role of the one before it`);
    checkResults(before, at);
    checkEnd(at);
  });
  const last = messages.at(-1);
  if (last?.role !== "user") throw new Error("The last message is not the user's");
}

function checkResults(before: Message | undefined, at: Message): void {
  const open = before === undefined ? [] : callsOf(before);
  const answered = at.content.flatMap(({ type, tool_use_id: id }) => (type === "tool_result" ? [id] : []));
  if (JSON.stringify([...open].sort()) !== JSON.stringify([...answered].sort())) {
    throw new Error(`Calls ${open.join(", ")} are answered with ${answered.join(", ")}`);
  }
}

function checkEnd({ role, content }: Message): void {
  if (role === "assistant" && content.at(-1)?.type === "thinking") throw new Error("A reply ends in reasoning");
}

function callsOf({ content }: Message): string[] {
  return content.flatMap(({ type, id }) => (type === "tool_use" && id !== undefined ? [id] : []));
}
