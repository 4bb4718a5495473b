// What Stop does to a call that is under way.
import { step } from "#shared/faults/step.ts";
import { type SandboxLink, SandboxLost } from "#shared/sandbox-link/link.ts";
import type { Call, Session } from "../session/session.ts";
import type { Effect, ToolResult } from "../tools/tool.ts";
import type { TurnContext } from "./context.ts";

/** After Stop: how long a command may take to end by itself, and when it is given up (2 s in all, C63, C68). */
export const STOP_GRACE_MS = 1_000;
export const STOP_MS_MAX = 1_900;

export type Target = Readonly<{ call: Call; link: SandboxLink; effect: Effect }>;

/** Stop was pressed and the sandbox did not confirm in time that the command ended. */
export class StopUnconfirmed extends Error {
  override readonly name = "StopUnconfirmed";
}

/** Stop was pressed during a call that changes nothing. */
export class ReadStopped extends Error {
  override readonly name = "ReadStopped";
}

/**
 * The result of the call. When Stop is pressed meanwhile, the sandbox is told, and what it does not answer within Stop's
 * bound is given up. Throws StopUnconfirmed, ReadStopped, SandboxLost, why the brain lets go, or what the call throws.
 */
export async function stoppable(
  context: TurnContext,
  target: Target,
  execution: Promise<ToolResult>,
): Promise<ToolResult> {
  const { abandon, halt } = context.signals;
  const cut = Promise.withResolvers<never>();
  const boot = bootOf(context.record.state);
  let timer: NodeJS.Timeout | undefined;
  let stopping: Promise<boolean> | undefined;
  const onAbandon = () => cut.reject(abandon.reason);
  const onHalt = () => {
    if (target.effect === "reads") return cut.reject(new ReadStopped("Stopped"));
    timer = setTimeout(() => cut.reject(new StopUnconfirmed("Not confirmed in time")), STOP_MS_MAX);
    if (target.effect === "runs") stopping = stop(context, target);
  };
  const unwatch = context.record.watch((state) => {
    if (isBootOver(state, boot)) cut.reject(new SandboxLost("restarted", "The sandbox's processes are gone"));
  });
  abandon.addEventListener("abort", onAbandon, { once: true });
  halt.addEventListener("abort", onHalt, { once: true });
  if (abandon.aborted) onAbandon();
  if (halt.aborted) onHalt();
  try {
    const result = await Promise.race([execution, cut.promise]);
    return stopping === undefined ? result : await Promise.race([withStop(result, stopping), cut.promise]);
  } finally {
    unwatch();
    clearTimeout(timer);
    abandon.removeEventListener("abort", onAbandon);
    halt.removeEventListener("abort", onHalt);
  }
}

/** A command that answered "in the background" before Stop reached it does not run any more. */
async function withStop(result: ToolResult, stopping: Promise<boolean>): Promise<ToolResult> {
  if (result.outcome.status !== "background" || !(await stopping)) return result;
  const text = "Stopped by the user when it had just started in the background; what it did until then is done.";
  return { outcome: { status: "stopped" }, text };
}

/** Whether there was something to end. A sandbox that cannot be told is a Stop that is not confirmed. */
function stop({ log, record }: TurnContext, { call, link }: Target): Promise<boolean> {
  step("brain.stop.sending");
  const stopped = link.stop(call.callId, STOP_GRACE_MS).then(
    (answer) => answer.stopped,
    (error: unknown) => {
      log.warn({ session: record.session, callId: call.callId, err: error }, "the command could not be told to stop");
      throw new StopUnconfirmed("It could not be told", { cause: error });
    },
  );
  // A command that is waited for says itself how it ended.
  stopped.catch(() => undefined);
  step("brain.stop.sent");
  return stopped;
}

function bootOf(state: Session): string | undefined {
  return state.status === "working" && state.sandbox.status === "up" ? state.sandbox.bootId : undefined;
}

/** The provider said that the sandbox's processes are gone, or another boot joined: no answer can come any more. */
function isBootOver(state: Session, boot: string | undefined): boolean {
  return state.status === "working" && boot !== undefined && bootOf(state) !== boot;
}
