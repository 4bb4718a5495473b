// I6 as a provider would judge it: each request has every call's result right after the reply that made it. What the
// ledger says comes second here, since the brain could make of a good one a bad request.
import { z } from "zod";

const message = z.object({
  role: z.string(),
  content: z.unknown(),
  tool_calls: z.array(z.object({ id: z.string() })).optional(),
  tool_call_id: z.string().optional(),
});
const request = z.object({ messages: z.array(message).min(1) });

type Message = z.output<typeof message>;

/** What the brain would tell of a call that is open. One that was closed as unknown says why as well. */
const OPEN_CALL = "Outcome unknown: it may have partly or fully run.";

/** What is wrong with a request of OpenAI chat completions. Never throws: one that cannot be read is wrong too. */
export function faultsOfRequest(body: string): string[] {
  try {
    return faultsIn(request.parse(JSON.parse(body)).messages);
  } catch (error) {
    return [`A request cannot be read: ${error}`];
  }
}

function faultsIn(messages: readonly Message[]): string[] {
  const faults: string[] = [];
  let open = new Set<string>();
  for (const { role, content, tool_calls: calls = [], tool_call_id: answered = "" } of messages) {
    if (role === "tool") {
      if (!open.delete(answered)) faults.push(`There is a result of ${answered}, which no reply before it asked for`);
      if (content === OPEN_CALL) faults.push(`Call ${answered} was open`);
      continue;
    }
    if (open.size > 0) faults.push(`A message of ${role} comes before the results of ${[...open].join(", ")}`);
    open = new Set(calls.map(({ id }) => id));
  }
  return open.size > 0 ? [...faults, `The results of ${[...open].join(", ")} are missing`] : faults;
}
