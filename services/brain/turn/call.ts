// One call, from the moment its ToolStarted is stored: run it, or ask about it, and say how it ended.
import { WireCode } from "#schemas/wire/message.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { CallNotRun, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { CallEnd } from "../session/decide.ts";
import { type Call, STOP_UNCONFIRMED } from "../session/session.ts";
import { clipped } from "../tools/excerpt.ts";
import type { ToolResult } from "../tools/tool.ts";
import type { TurnContext } from "./context.ts";
import { OutputStream } from "./output-stream.ts";
import { ReadStopped, StopUnconfirmed, stoppable, type Target } from "./stopping.ts";

/** The most that a model is given as one result, whatever a tool or a hostile sandbox makes of it. */
export const RESULT_CHARACTERS_MAX = 100_000;

/** What the sandbox says of its breakdown, in the text of an unknown outcome, which has 4,000. */
const MESSAGE_CHARACTERS_MAX = 3_000;

export async function runCall(context: TurnContext, call: Call, link: SandboxLink): Promise<CallEnd> {
  const tool = context.tools.get(call.tool);
  const accepted = tool?.accept(call.input);
  if (tool === undefined || accepted?.status !== "accepted") {
    return notRun(call.callId, "not_acceptable", "This call did not run: its tool or input is not known here.");
  }
  if (context.signals.halt.aborted) {
    return notRun(call.callId, "stopped", "This call did not run: the user stopped the turn before it left.");
  }
  return observed(context, { call, link, effect: tool.effect }, (onOutput) => {
    step("brain.call.sending");
    const running = accepted.run({ link, callId: call.callId, onOutput });
    step("brain.call.sent");
    return running;
  });
}

type OnOutput = (chunk: { position: number; bytes: Uint8Array }) => void;

/** Runs `execute` with its output on the live bus, within Stop's bound, and turns whatever happens into an end. */
export async function observed(
  context: TurnContext,
  target: Target,
  execute: (onOutput: OnOutput) => Promise<ToolResult>,
): Promise<CallEnd> {
  const { callId } = target.call;
  const startedAt = performance.now();
  const output = new OutputStream(
    (chunk) => context.live.output({ callId, ...chunk }),
    () => performance.now(),
  );
  try {
    const result = await stoppable(
      context,
      target,
      execute((chunk) => {
        step("brain.call.output");
        output.take(chunk);
      }),
    );
    const durationMs = Math.round(performance.now() - startedAt);
    const text = clipped(result.text, RESULT_CHARACTERS_MAX);
    return { type: "ToolDone", data: { callId, ...result, text, durationMs } };
  } catch (error) {
    if (context.signals.abandon.aborted) throw error;
    return endOf(context, target, { error, durationMs: Math.round(performance.now() - startedAt) });
  } finally {
    output.end();
  }
}

function endOf(context: TurnContext, target: Target, ended: { error: unknown; durationMs: number }): CallEnd {
  const { callId } = target.call;
  const { error, durationMs } = ended;
  if (error instanceof ReadStopped) {
    const text = "Stopped by the user before it ended; it changes nothing.";
    return { type: "ToolDone", data: { callId, outcome: { status: "stopped" }, text, durationMs } };
  }
  const isAway = error instanceof SandboxLost || error instanceof StopUnconfirmed || error instanceof CallNotRun;
  if (isAway) context.workplace.doubt();
  if (error instanceof StopUnconfirmed) {
    return unknown(callId, STOP_UNCONFIRMED, "Stop was pressed and the sandbox did not confirm that it ended.");
  }
  if (error instanceof CallNotRun) return notRun(callId, "never_seen", "This call did not run and never will.");
  if (error instanceof SandboxLost) return lost(target, error);
  if (error instanceof Refusal) {
    if (error.code === WireCode.epochStale) throw error;
    if (error.code === "internal" && target.effect !== "reads") return brokenDown(callId, error);
    return { type: "ToolDone", data: { callId, ...failedWith(error), durationMs } };
  }
  // What reads can simply be asked again, and the error says how.
  if (error instanceof Retryable && target.effect === "reads") {
    return { type: "ToolDone", data: { callId, ...failedWith(error), durationMs } };
  }
  context.log.error({ session: context.record.session, callId, err: error }, "a call ended in an unexpected error");
  return unknown(callId, "internal", "The brain failed while it waited for the result.");
}

function lost({ call, effect }: Target, error: SandboxLost): CallEnd {
  const why =
    error.code === "restarted"
      ? "The sandbox was restarted while it ran."
      : "The sandbox stopped answering while it ran.";
  return effect === "reads" ? unknownRead(call.callId, why) : unknown(call.callId, `sandbox_${error.code}`, why);
}

/** pistisd itself broke down, before the call had its effect or after. */
function brokenDown(callId: string, { message }: Refusal): CallEnd {
  return unknown(
    callId,
    "sandbox_internal",
    `The sandbox broke down over it: ${clipped(message, MESSAGE_CHARACTERS_MAX)}.`,
  );
}

function failedWith(error: Refusal | Retryable): Pick<ToolResult, "outcome" | "text"> {
  const { code, next } = error;
  const message = clipped(error.message, 3_900);
  const failure = { code, message, ...(next === undefined ? {} : { next: clipped(next, 1_900) }) };
  return {
    outcome: { status: "failed", failure },
    text: [`Failed (${code}): ${message}`, next ?? ""].join("\n").trim(),
  };
}

export function unknown(callId: string, reason: string, why: string): CallEnd {
  const text = `Outcome unknown: it may have partly or fully run. ${why} Look at what it did before you do it again.`;
  return { type: "ToolOutcomeUnknown", data: { callId, reason, text } };
}

/** A read that nobody knows the end of: nothing changed, so it can simply be asked again. */
export function unknownRead(callId: string, why: string): CallEnd {
  const text = `Outcome unknown: it may have partly or fully run, but it changes nothing. ${why} Ask again if you need it.`;
  return { type: "ToolOutcomeUnknown", data: { callId, reason: "read_lost", text } };
}

export function notRun(callId: string, reason: string, text: string): CallEnd {
  return { type: "ToolNotRun", data: { callId, reason, text } };
}
