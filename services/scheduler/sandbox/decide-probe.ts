import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { CommandOf } from "./decide.ts";
import { identity } from "./requests.ts";
import type { SessionSandbox } from "./sandbox.ts";

/** The sandbox that is there, when it still has to be found closed before anything runs in it. */
export function sandboxToProbe({
  sandbox,
  probedGeneration,
  ended,
}: SessionSandbox): { sandboxId: string; generation: number } | undefined {
  if (ended || (sandbox.status !== "joined" && sandbox.status !== "inspecting")) return undefined;
  return sandbox.generation === probedGeneration ? undefined : identity(sandbox);
}

/** A generation that has passed stays so: a restart of the same sandbox keeps its network. */
export function recordProbe(state: SessionSandbox, command: CommandOf<"RecordProbe">): SchedulerEvent[] {
  const { sandbox, probedGeneration } = state;
  const { generation, findings, durationMs } = command;
  if (probedGeneration === generation) return [];
  if ((sandbox.status !== "joined" && sandbox.status !== "inspecting") || sandbox.generation !== generation) {
    throw new Refusal("probe_stale", `Generation ${generation} is not the sandbox that is there`);
  }
  const passed = findings.length > 0 && findings.every(({ ok }) => ok);
  return [{ type: "EgressProbed", data: { ...identity(sandbox), passed, findings: [...findings], durationMs } }];
}
