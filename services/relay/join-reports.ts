// Tells the scheduler that pistisd connected for the first time in its life, until that is accepted.
// A sandbox that comes back with a new boot id meanwhile takes the place of its older report.
import { setTimeout as delay } from "node:timers/promises";
import { step } from "#shared/faults/step.ts";
import type { Log } from "#shared/service/log.ts";

export type JoinReport = Readonly<{ kind: "joined"; sandboxId: string; generation: number; bootId: string }>;

const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 5_000;

export type JoinReports = Readonly<{ tell: (report: JoinReport) => void; close: () => Promise<void> }>;

type Reporting = {
  report: (report: JoinReport) => Promise<void>;
  reported: (report: JoinReport) => Promise<void>;
  log: Log;
};

export function openJoinReports(reporting: Reporting): JoinReports {
  const newest = new Map<string, JoinReport>();
  const running = new Map<string, Promise<void>>();
  const closing = new AbortController();
  const run = async (sandboxId: string) => {
    for (let report = newest.get(sandboxId); report !== undefined; report = newest.get(sandboxId)) {
      await tellOnce(reporting, report, () => newest.get(sandboxId) === report, closing.signal);
      if (closing.signal.aborted) break;
      if (newest.get(sandboxId) === report) newest.delete(sandboxId);
    }
    running.delete(sandboxId);
  };
  return {
    tell: (report) => {
      newest.set(report.sandboxId, report);
      if (!running.has(report.sandboxId)) running.set(report.sandboxId, run(report.sandboxId));
    },
    close: async () => {
      closing.abort();
      await Promise.all(running.values());
    },
  };
}

/** Retries with back-off until the report is accepted, is not the newest any more, or the relay stops. */
async function tellOnce(
  { report: tell, reported, log }: Reporting,
  report: JoinReport,
  isNewest: () => boolean,
  stop: AbortSignal,
): Promise<void> {
  for (let waitMs = RETRY_MS_MIN; isNewest() && !stop.aborted; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
    try {
      step("relay.report.sending");
      await tell(report);
      step("relay.report.sent");
      await reported(report);
      return;
    } catch (error) {
      log.warn(
        { sandboxId: report.sandboxId, reason: String(error) },
        "Reporting a joined sandbox failed, trying again",
      );
    }
    await delay(waitMs, undefined, { signal: stop }).catch(() => undefined);
  }
}
