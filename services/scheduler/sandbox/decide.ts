import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { ReportPlace } from "#schemas/ledger/parts.ts";
import type { EgressFinding } from "#schemas/network/egress-finding.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { Report } from "#schemas/provider/task.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { decideMember, type MemberCommand } from "../pool/decide-member.ts";
import { recordProbe } from "./decide-probe.ts";
import { decideReport } from "./decide-report.ts";
import { createRequested, deleteRequested, failedWith, requested } from "./requests.ts";
import { type SessionSandbox, sandboxIdOf } from "./sandbox.ts";

/** `taskId` is the id of the request, if one is made; `network` is what a new sandbox may reach. */
export type SandboxCommand =
  /** A turn needs the sandbox: ask the provider for the cheapest way to have it. */
  | Readonly<{ type: "AnswerNeed"; session: string; taskId: string; network: SandboxNetwork }>
  | Readonly<{
      type: "RecordReport";
      session: string;
      taskId: string;
      network: SandboxNetwork;
      reporter: string;
      /** It may be old: its first delivery was not acknowledged. */
      redelivered: boolean;
      place: ReportPlace;
      report: Report;
    }>
  | Readonly<{
      type: "RecordProbe";
      session: string;
      generation: number;
      findings: readonly EgressFinding[];
      durationMs: number;
    }>
  | Readonly<{ type: "DeleteSandbox"; session: string; taskId: string }>
  /** The time for request `openTaskId` is over. */
  | Readonly<{ type: "GiveUpRequest"; session: string; taskId: string; openTaskId: string; afterMs: number }>
  | MemberCommand;

export type CommandOf<Type extends SandboxCommand["type"]> = Extract<SandboxCommand, { type: Type }>;

export const DELETE_ATTEMPTS_MAX = 20;

export function decide(state: SessionSandbox, command: SandboxCommand): SchedulerEvent[] {
  switch (command.type) {
    case "AnswerNeed":
      return answerNeed(state, command);
    case "RecordReport":
      return decideReport(state, command);
    case "RecordProbe":
      return recordProbe(state, command);
    case "DeleteSandbox":
      return deleteSandbox(state, command);
    case "GiveUpRequest":
      return giveUp(state, command);
    default:
      return decideMember(state, command);
  }
}

function answerNeed(state: SessionSandbox, command: CommandOf<"AnswerNeed">): SchedulerEvent[] {
  const { session, taskId } = command;
  const { sandbox, need } = state;
  if (need === undefined || state.ended) return [];
  switch (sandbox.status) {
    case "absent":
      return [createRequested(state, { sandboxId: sandboxIdOf(session), generation: 1 }, command)];
    case "stopped":
      return [requested("restart", state, sandbox, taskId)];
    case "missing":
      return [createRequested(state, { ...sandbox, generation: sandbox.generation + 1 }, command)];
    case "failed":
      return [
        sandbox.request === "create"
          ? // It may be there after all: what it may reach does not change under it.
            createRequested(state, sandbox, { taskId, network: state.network })
          : requested(sandbox.request, state, sandbox, taskId),
      ];
    case "joined":
      // One that was not probed may be one that does not answer: its provider knows whether it is there at all.
      return need === "absent" || need === "stopped" ? [] : [requested("inspect", state, sandbox, taskId)];
    case "inspecting":
      return [requested("inspect", state, sandbox, taskId)];
    case "creating":
    case "restarting":
      return [];
    case "deleting":
    case "undeletable":
    case "destroyed":
      throw new Refusal("sandbox_deleted", `The sandbox of ${session} is ${sandbox.status}`);
  }
}

/** Only an ended session has no open turn any more, and never will have one (I7). */
function deleteSandbox(state: SessionSandbox, { session, taskId }: CommandOf<"DeleteSandbox">): SchedulerEvent[] {
  const { sandbox } = state;
  if (!state.ended) throw new Refusal("session_open", `${session} is not over, so its sandbox stays`);
  switch (sandbox.status) {
    case "absent":
    case "deleting":
    case "undeletable":
    case "destroyed":
      return [];
    default:
      return [deleteRequested(state, sandbox, taskId)];
  }
}

function giveUp(state: SessionSandbox, command: CommandOf<"GiveUpRequest">): SchedulerEvent[] {
  const { sandbox } = state;
  if (!("taskId" in sandbox) || sandbox.taskId !== command.openTaskId) return [];
  // "It runs" is an answer that leaves no trace, so silence cannot be told from it. Who asked has a time limit of its own.
  if (sandbox.status === "inspecting") return [];
  if (sandbox.status !== "deleting") return [failedWith(sandbox, tooLate(state, command.afterMs))];
  if (sandbox.attempts < DELETE_ATTEMPTS_MAX) return [deleteRequested(state, sandbox, command.taskId)];
  return [
    failedWith(sandbox, {
      code: "sandbox_undeletable",
      message: `The provider ${state.provider} did not delete the sandbox after ${sandbox.attempts} requests`,
      next: "Look at the provider's log and delete the sandbox there by hand.",
    }),
  ];
}

function tooLate({ sandbox, provider }: SessionSandbox, afterMs: number) {
  const seconds = Math.round(afterMs / 1_000);
  const made = "made" in sandbox && sandbox.made;
  if (made) {
    return {
      code: "sandbox_never_joined",
      message: `The sandbox was started, and pistisd in it did not reach the relay within ${seconds} s`,
      next: "See that the relay runs and that the sandbox can reach it; then send the message again. sandboxes.startMs sets the limit.",
    };
  }
  return {
    code: "provider_silent",
    message: `The provider ${provider} did not answer within ${seconds} s`,
    next: "See that the provider's service runs and read its log; then send the message again. sandboxes.startMs sets the limit.",
  };
}
