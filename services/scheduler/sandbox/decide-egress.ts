// What the egress service reports is about requests that were made, so it is recorded whatever has become of the
// sandbox since, and of an older generation too.
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { Report } from "#schemas/provider/task.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { refuseChangingHands } from "./changing-hands.ts";
import type { CommandOf } from "./decide.ts";
import type { SessionSandbox } from "./sandbox.ts";

type EgressCommand = CommandOf<"RecordReport"> & { report: Extract<Report, { kind: "egress" }> };

export function decideEgress(state: SessionSandbox, command: EgressCommand): SchedulerEvent[] {
  const { sandboxId, generation, batch, requests, untold } = command.report;
  check(state, command);
  if (state.egressBatches.includes(batch)) return [];
  const about = { sandboxId, generation, batch };
  const logged = requests.map((request): SchedulerEvent => ({ type: "EgressLogged", data: { ...about, ...request } }));
  if (untold === undefined) return logged;
  return [...logged, { type: "EgressSummarised", data: { ...about, ...untold } }];
}

function check(state: SessionSandbox, { session, reporter, report }: EgressCommand): void {
  const { sandbox } = state;
  refuseChangingHands(state, session);
  if (reporter !== "egress") throw new Refusal("report_foreign", `${reporter} speaks for egress`);
  if (sandbox.status === "absent" || report.sandboxId !== sandbox.sandboxId) {
    throw new Refusal("report_unknown_sandbox", `No such sandbox was asked for: ${report.sandboxId}`);
  }
  if (report.generation > sandbox.generation) {
    throw new Refusal("report_stale", `Generation ${report.generation} is not there yet`);
  }
}
