// One model request and what becomes of its reply.
import type { EventOf } from "#schemas/ledger/event.ts";
import type { ReplyPart } from "#schemas/ledger/events/brain.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import type { ModelReply } from "../models/model.ts";
import { systemPrompt } from "../prompt/system-prompt.ts";
import type { TurnEnding } from "../session/decide.ts";
import { entriesOf } from "../session/history.ts";
import type { Session } from "../session/session.ts";
import { clipped } from "../tools/excerpt.ts";
import { batch, type Known } from "./calls.ts";
import type { TurnContext } from "./context.ts";

const NAME_CHARACTERS_MAX = 200;
const REFUSAL_CHARACTERS_MAX = 3_000;
const NO_USAGE = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };

type Replied = Readonly<{ replyId: string; reply: ModelReply; requestMs: number }>;
type Refused = Omit<EventOf<"ToolRefused">["data"], "turnId">;

/** Asks the model while what was written last is still being stored; both have happened when it resolves. */
export async function askModel(context: TurnContext, { state, stored }: Known): Promise<Replied> {
  const { model, tools, live, signals } = context;
  const replyId = newId("reply");
  const startedAt = performance.now();
  const cancel = new AbortController();
  let heard = "";
  step("brain.model.asking");
  try {
    const request = model.request({
      system: systemPrompt({ hasRepository: state.repository !== undefined }),
      history: entriesOf(state.history),
      tools: [...tools.values()].map(({ description }) => description),
      signal: AbortSignal.any([signals.abandon, signals.halt, cancel.signal]),
      onDelta: (delta) => {
        if (delta.kind === "text") heard += delta.text;
        // Nobody is shown what a turn does that may turn out not to exist.
        stored.then(
          () => live.delta(state.turn.turnId, replyId, delta),
          () => undefined,
        );
      },
      onRetry: (why, afterMs) => live.progress("model", clipped(`${why}; asked again in ${afterMs} ms`, 900)),
    });
    const [reply] = await Promise.all([request, stored]);
    step("brain.model.replied");
    return { replyId, reply, requestMs: Math.round(performance.now() - startedAt) };
  } catch (error) {
    cancel.abort(error);
    if (!signals.abandon.aborted && signals.halt.aborted && heard !== "") {
      // Until then the turn may be another brain's, under the same epoch.
      await stored;
      await keepHeard(context, replyId, heard);
    }
    throw error;
  }
}

/** The user saw this much before pressing Stop, so it stays in the conversation. */
async function keepHeard({ record, epoch, model }: TurnContext, replyId: string, text: string): Promise<void> {
  const content: ReplyPart[] = [{ type: "text", text }];
  const reply = { replyId, model: model.name, content, usage: NO_USAGE, costUsd: null, requestMs: 0 };
  await record.commit({
    type: "RecordReply",
    epoch,
    reply: { ...reply, finishReason: "other" },
    refused: [],
    ending: { reason: "interrupted" },
  });
}

/** Stores the reply and, in the same append, what follows from it at once: refusals, first calls, or the end. */
export async function recordReply(context: TurnContext, { replyId, reply, requestMs }: Replied): Promise<Session> {
  const { record, epoch, model, workplace } = context;
  const content = partsOf(reply);
  const calls = content.filter((part) => part.type === "tool-call");
  const refused = calls.flatMap((call) => refusalOf(context, call));
  const acceptable = calls.filter(({ callId }) => !refused.some((refusal) => refusal.callId === callId));
  const bench = acceptable.length > 0 ? workplace.now : undefined;
  const { finishReason, usage, costUsd } = reply;
  const stored = await record.commit({
    type: "RecordReply",
    epoch,
    reply: { replyId, model: model.name, content, finishReason, usage, costUsd, requestMs },
    refused,
    start: bench && { callIds: batch(context, acceptable), sandboxId: bench.sandboxId },
    ending: endingOf(reply),
  });
  step("brain.reply.stored");
  return stored;
}

/** Every call gets an id of ours, and that of the model where it can be told from the others of the reply. */
function partsOf({ content }: ModelReply): ReplyPart[] {
  const seen = new Set<string>();
  return content.map((part) => {
    if (part.type !== "tool-call") return part;
    const callId = newId("call");
    const { modelCallId: given, input } = part;
    const isUsable = given !== "" && given.length <= NAME_CHARACTERS_MAX && !seen.has(given);
    const modelCallId = isUsable ? given : callId;
    seen.add(modelCallId);
    return { type: "tool-call", callId, modelCallId, tool: part.tool.slice(0, NAME_CHARACTERS_MAX), input };
  });
}

function refusalOf({ tools }: TurnContext, call: Extract<ReplyPart, { type: "tool-call" }>): Refused[] {
  const tool = tools.get(call.tool);
  if (tool === undefined) {
    return [
      refused(
        call.callId,
        "tool_unknown",
        `There is no tool "${call.tool}". There are: ${[...tools.keys()].join(", ")}.`,
      ),
    ];
  }
  if (typeof call.input === "string") {
    return [
      refused(
        call.callId,
        "tool_input_malformed",
        "The input is not valid JSON. Send the call again with a JSON object.",
      ),
    ];
  }
  const accepted = tool.accept(call.input);
  if (accepted.status === "accepted") return [];
  return [refused(call.callId, "tool_input_invalid", `The input does not fit the tool's schema. ${accepted.message}`)];
}

function refused(callId: string, code: string, why: string): Refused {
  const message = clipped(why, REFUSAL_CHARACTERS_MAX);
  return { callId, failure: { code, message }, text: `Not run (${code}): ${message}` };
}

function endingOf({ finishReason }: ModelReply): TurnEnding {
  switch (finishReason) {
    case "length":
      return {
        reason: "limit",
        failure: {
          code: "output_tokens",
          message: "The model's reply was cut at its output limit.",
          next: "Post a message to go on, or raise outputTokensMax of this model in pistis.json.",
        },
      };
    case "content-filter":
      return {
        reason: "failed",
        failure: {
          code: "model_content_filter",
          message: "The model's provider withheld the reply.",
          next: "Say it differently, or choose another model.",
        },
      };
    case "error":
      return {
        reason: "failed",
        failure: { code: "model_failed", message: "The model broke off its reply.", next: "Post a message to go on." },
      };
    default:
      return { reason: "completed" };
  }
}
