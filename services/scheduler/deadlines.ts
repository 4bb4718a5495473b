import type { Timer } from "#schemas/scheduler/timer.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import { VersionConflict } from "#shared/ledger/ledger.ts";
import { busy } from "./reports.ts";
import type { Sessions } from "./sessions.ts";

/** Gives a request up when its time is over. A timer that is early goes back to the queue until it is due. */
export async function keepDeadline(
  { sessions, startMs }: { sessions: Sessions; startMs: number },
  { session, taskId, dueAt }: Timer,
): Promise<void> {
  const leftMs = Date.parse(dueAt) - Date.now();
  if (leftMs > 0) throw new Retryable("timer_early", `Due at ${dueAt}`, { retryAfterMs: leftMs });
  step("scheduler.deadline.reached");
  try {
    await sessions.command({
      type: "GiveUpRequest",
      session,
      taskId: newId("task"),
      openTaskId: taskId,
      afterMs: startMs,
    });
    step("scheduler.deadline.kept");
  } catch (error) {
    if (error instanceof VersionConflict) throw busy(session, error);
    throw error;
  }
}
