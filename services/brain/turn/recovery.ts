// What a brain does with the open calls of the one before it (I5). It raised the epoch already, so whatever that
// brain still sends is refused. Nothing is run here: pistisd is asked, and what it cannot prove is told as unknown.

import type { AttachResult } from "#schemas/wire/message.ts";
import { Fatal } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { CallNotRun, type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { CallEnd } from "../session/decide.ts";
import type { Call, Session } from "../session/session.ts";
import { EXCERPT } from "../tools/bash.ts";
import { commandResult } from "../tools/command-result.ts";
import type { Effect, ToolResult } from "../tools/tool.ts";
import { observed, unknown, unknownRead } from "./call.ts";
import { type TurnContext, working } from "./context.ts";

/** How much later than its own time allows a call may end: the sandbox ends it, and the answer has a way to go. */
export const END_MARGIN_MS = 30_000;

type Started = Extract<Call, { status: "started" }>;

/** Closes every call that was under way when the turn changed hands, each exactly once (I3). */
export async function recoverCalls(context: TurnContext): Promise<void> {
  const { record, epoch } = context;
  const started = working(record.state).turn.calls.filter((call): call is Started => call.status === "started");
  const recovered = started.map(async (call) => {
    step("brain.recovery.asking");
    const end = await recoverCall(context, call);
    step("brain.recovery.answered");
    await record.commit({ type: "FinishCall", epoch, end });
    step("brain.recovery.stored");
  });
  await Promise.all(recovered);
}

async function recoverCall(context: TurnContext, call: Started): Promise<CallEnd> {
  const { record, workplace, config, tools } = context;
  const effect = tools.get(call.tool)?.effect;
  if (effect === "reads") return unknownRead(call.callId, "The brain that waited for it died.");
  if (effect === undefined || effect === "signals" || !config.recovery.reattach) {
    return unknown(call.callId, "taken_over", "The brain that waited for it died.");
  }
  if (!isStillUp(record.state, call)) {
    return unknown(call.callId, "sandbox_gone", "The sandbox that it ran in is not up any more.");
  }
  const link = workplace.linkToRecover();
  if (link === undefined) return unknown(call.callId, "sandbox_gone", "The sandbox that it ran in is not up any more.");
  return ask(context, { call, link, effect });
}

function ask(context: TurnContext, target: { call: Started; link: SandboxLink; effect: Effect }): Promise<CallEnd> {
  const { call, link, effect } = target;
  return observed(context, target, async (onOutput) => {
    await link.ready(context.config.recovery.reattachMs);
    const asked = { callId: call.callId, excerpt: EXCERPT, from: 0 };
    const { isFollowed, withinMs } = waitFor(context, call);
    const answer = await link.attach(asked, isFollowed ? { onOutput, withinMs } : { withinMs });
    return resultOf(answer, effect, call.callId);
  });
}

/** Another generation of the sandbox knows nothing of the call, and would say that it never ran. */
function isStillUp(session: Session, { sandboxId, generation }: Started): boolean {
  const { sandbox } = working(session);
  return sandbox.status === "up" && sandbox.sandboxId === sandboxId && sandbox.generation === generation;
}

/** The output of a call in the background goes on after its answer, so it is not waited for. */
function waitFor({ tools, config }: TurnContext, call: Started): { isFollowed: boolean; withinMs: number } {
  const accepted = tools.get(call.tool)?.accept(call.input);
  const isAccepted = accepted?.status === "accepted";
  // The limits may have become narrower since the call left.
  const takesMs = isAccepted ? accepted.takesMs : config.limits.commandMsMax;
  const withinMs = takesMs + config.recovery.reattachMs + END_MARGIN_MS;
  return { isFollowed: !(isAccepted && accepted.inBackground), withinMs };
}

function resultOf(answer: AttachResult, effect: Effect, callId: string): ToolResult {
  switch (answer.state) {
    case "never-seen":
      throw new CallNotRun("pistisd never saw the call and has barred it");
    case "lost":
      throw new SandboxLost("restarted", "pistisd was restarted while the call ran");
    case "finished":
      if (effect === "runs") return commandResult(answer.result, callId);
      return fileResult(answer);
  }
}

function fileResult({ result: { outcome } }: Extract<AttachResult, { state: "finished" }>): ToolResult {
  if (outcome.status === "exited" && outcome.exitCode === 0) {
    return { outcome: { status: "ok" }, text: "Done. (The sandbox confirmed it after the brain was replaced.)" };
  }
  // A file is replaced whole or not at all: one whose content did not arrive completely was not touched.
  if (outcome.status === "failed" && outcome.failure.code === "internal") {
    throw new CallNotRun("The connection ended before the change was complete");
  }
  if (outcome.status === "failed") {
    return { outcome, text: `Failed (${outcome.failure.code}): ${outcome.failure.message}` };
  }
  throw new Fatal("file_call_outcome", `A file call cannot end as ${outcome.status}`);
}
