import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { failureOf, Refusal, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import { VersionConflict } from "#shared/ledger/ledger.ts";
import type { Log } from "#shared/service/log.ts";
import type { ReceivedReport } from "#shared/work-queue/work-queue.ts";
import { ownerOf } from "./pool/owner.ts";
import type { WarmPool } from "./pool/pool.ts";
import { CHANGES_HANDS } from "./sandbox/changing-hands.ts";
import type { Sessions } from "./sessions.ts";

const CONFLICT_RETRY_MS = 50;
/** Longer than it takes until a claim comes back whose scheduler died, and not given up before. */
const CHANGES_HANDS_RETRY_MS = 1_000;

export type Reporting = Readonly<{
  sessions: Sessions;
  network: SandboxNetwork;
  pool: Pick<WarmPool, "hearOf">;
  log: Log;
}>;

/** Makes a fact of a report that fits what was asked; any other is logged and dropped. */
export async function recordReport({ sessions, network, pool, log }: Reporting, received: ReceivedReport) {
  const { report, reporter, redelivered, place } = received;
  const session = await ownerOf(sessions, report.sandboxId);
  pool.hearOf(report.sandboxId);
  step("scheduler.report.reading");
  try {
    const appended = await sessions.command({
      type: "RecordReport",
      session,
      taskId: newId("task"),
      network,
      reporter,
      redelivered,
      place,
      report,
    });
    step("scheduler.report.stored");
    log.debug({ session, reporter, kind: report.kind, facts: appended.map((event) => event.type) }, "Report read");
  } catch (error) {
    if (error instanceof VersionConflict) throw busy(session, error);
    if (!(error instanceof Refusal)) throw error;
    if (error.code === CHANGES_HANDS) throw again(error);
    const { sandboxId, generation, kind } = report;
    log.warn({ session, reporter, sandboxId, generation, kind, failure: failureOf(error) }, "Report dropped");
  }
}

export function busy(session: string, cause: VersionConflict): Retryable {
  return new Retryable("session_busy", `Others wrote to ${session} faster than this could be decided`, {
    cause,
    retryAfterMs: CONFLICT_RETRY_MS,
  });
}

function again(cause: Refusal): Retryable {
  return new Retryable(cause.code, cause.message, { cause, retryAfterMs: CHANGES_HANDS_RETRY_MS });
}
