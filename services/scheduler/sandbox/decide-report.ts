// What a provider or the relay says becomes a fact only when it fits what was asked: the right sandbox, its newest
// generation, the right reporter, a state in which it can be. Anything else is a Refusal, which is logged and dropped.
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { ReportPlace } from "#schemas/ledger/parts.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { Report } from "#schemas/provider/task.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { refuseChangingHands } from "./changing-hands.ts";
import type { CommandOf } from "./decide.ts";
import { decideEgress } from "./decide-egress.ts";
import { createRequested, deleteRequested, failedWith, identity, requested } from "./requests.ts";
import { type Sandbox, type SessionSandbox, sessionOf } from "./sandbox.ts";

type Existing = Exclude<Sandbox, { status: "absent" }>;
type ReportOf<Kind extends Report["kind"]> = Extract<Report, { kind: Kind }>;
/** What is known, and the id of a request that follows from the report, with the network of a new sandbox. */
type Known = Readonly<{
  state: SessionSandbox;
  sandbox: Existing;
  taskId: string;
  network: SandboxNetwork;
  redelivered: boolean;
  place: ReportPlace;
}>;

export function decideReport(state: SessionSandbox, command: CommandOf<"RecordReport">): SchedulerEvent[] {
  const { report, taskId, network, redelivered, place } = command;
  if (report.kind === "egress") return decideEgress(state, { ...command, report });
  const known = { state, sandbox: checked(state, command), taskId, network, redelivered, place };
  if (known.sandbox.status === "destroyed" && isThere(report)) return [deleteRequested(state, known.sandbox, taskId)];
  switch (report.kind) {
    case "created":
    case "restarted":
      return made(known, report);
    case "joined":
      return joined(known, report);
    case "destroyed":
      return destroyed(known, report);
    // Nobody asks for these yet, so no answer to them fits.
    case "paused":
    case "resumed":
    case "stopped":
      throw unexpected(known.sandbox, report);
    case "failed":
      return failed(known, report);
    case "state":
      return seen(known, report);
  }
}

/** A task to make it, or to start it, may have come to its provider again after the one to delete it. */
function isThere(report: Report): boolean {
  if (report.kind === "state") return report.state !== "missing";
  return report.kind === "created" || report.kind === "restarted";
}

function checked(state: SessionSandbox, command: CommandOf<"RecordReport">): Existing {
  const { sandbox, provider } = state;
  refuseChangingHands(state, command.session);
  const { reporter, report } = command;
  if (sandbox.status === "absent" || report.sandboxId !== sandbox.sandboxId) {
    throw new Refusal("report_unknown_sandbox", `No such sandbox was asked for: ${report.sandboxId}`);
  }
  // To its provider a sandbox is for ever that of the session, or the place in the pool, which it was made for.
  if ("session" in report && report.session !== sessionOf(report.sandboxId)) {
    throw new Refusal("report_foreign", `${report.sandboxId} is not a sandbox of ${report.session}`);
  }
  if (report.generation !== sandbox.generation) {
    throw new Refusal("report_stale", `Generation ${report.generation} is not the sandbox's ${sandbox.generation}`);
  }
  const expected = report.kind === "joined" ? "relay" : `provider-${provider}`;
  if (reporter !== expected) throw new Refusal("report_foreign", `${reporter} speaks for ${expected}`);
  return sandbox;
}

function made({ sandbox }: Known, report: ReportOf<"created"> | ReportOf<"restarted">): SchedulerEvent[] {
  const wanted = report.kind === "created" ? "creating" : "restarting";
  // pistisd may have joined before the provider's own answer came: then there is nothing left to tell.
  if (sandbox.status === "joined") return [];
  if (sandbox.status !== wanted || sandbox.taskId !== report.taskId) throw unexpected(sandbox, report);
  if (sandbox.made) return [];
  const data = { ...identity(sandbox), durationMs: report.durationMs };
  return [{ type: report.kind === "created" ? "SandboxCreated" : "SandboxRestarted", data }];
}

function joined({ state, sandbox, place }: Known, report: ReportOf<"joined">): SchedulerEvent[] {
  if (state.boots.includes(report.bootId)) return [];
  // A scheduler may have died with this report in hand, and pistisd been started again meanwhile.
  if (isOlder(place, state.lastJoin)) {
    throw new Refusal("report_outdated", `pistisd was started again after it was ${report.bootId}`);
  }
  switch (sandbox.status) {
    case "creating":
    case "restarting":
    case "joined":
    case "inspecting":
    // Late, but it is there after all.
    case "failed":
      return [joinedAs(sandbox, report.bootId, place)];
    default:
      throw unexpected(sandbox, report);
  }
}

function destroyed({ sandbox }: Known, report: ReportOf<"destroyed">): SchedulerEvent[] {
  if (sandbox.status === "destroyed") return [];
  // An answer to an earlier one of several requests is as good: gone is gone.
  if (sandbox.status !== "deleting" && sandbox.status !== "undeletable") throw unexpected(sandbox, report);
  return [{ type: "SandboxDestroyed", data: identity(sandbox) }];
}

function failed(known: Known, report: ReportOf<"failed">): SchedulerEvent[] {
  const { sandbox } = known;
  if (!("taskId" in sandbox) || sandbox.taskId !== report.taskId) throw unexpected(sandbox, report);
  // A deletion that failed is asked for again when its time is over.
  if (sandbox.status === "deleting") return [];
  if (sandbox.status === "restarting" && report.failure.code === "sandbox_missing") {
    return replaced(known);
  }
  return [failedWith(sandbox, report.failure)];
}

function seen(known: Known, report: ReportOf<"state">): SchedulerEvent[] {
  switch (report.state) {
    case "running":
      return seenRunning(known);
    case "stopped":
      return seenStopped(known, report);
    case "missing":
      return seenMissing(known, report);
    case "paused":
      throw unexpected(known.sandbox, report);
  }
}

/** Nothing to tell, except after a failed inspection: the sandbox was given up, and it is the one that it was. */
function seenRunning({ state, sandbox }: Known): SchedulerEvent[] {
  const { boots, lastJoin } = state;
  const bootId = boots.at(-1);
  if (sandbox.status !== "inspecting" || !sandbox.givenUp || bootId === undefined || lastJoin === undefined) return [];
  return [joinedAs(sandbox, bootId, lastJoin)];
}

function seenStopped(known: Known, report: ReportOf<"state">): SchedulerEvent[] {
  const { state, sandbox, taskId, redelivered, place } = known;
  const isOld = isOlder(place, state.lastJoin);
  const stopped: SchedulerEvent = { type: "SandboxStopped", data: { ...identity(sandbox), reason: report.reason } };
  switch (sandbox.status) {
    case "joined":
      // An old report may come after the sandbox was started anew: ask rather than believe it.
      return redelivered || isOld ? [requested("inspect", state, sandbox, taskId)] : [stopped];
    case "inspecting":
      // The answer to what was asked after the join is yet to come.
      if (isOld) return [];
      return sandbox.forTurn ? [stopped, requested("restart", state, sandbox, taskId)] : [stopped];
    case "creating":
    case "restarting":
      // Until the provider has done its part, this is about the life before.
      return sandbox.made ? [failedWith(sandbox, endedEarly(report.reason))] : [];
    default:
      return [];
  }
}

function seenMissing(known: Known, report: ReportOf<"state">): SchedulerEvent[] {
  const { sandbox } = known;
  switch (sandbox.status) {
    case "inspecting":
      return sandbox.forTurn ? replaced(known) : [missing(sandbox)];
    case "joined":
    case "stopped":
      return [missing(sandbox)];
    case "missing":
    case "destroyed":
      return [];
    default:
      throw unexpected(sandbox, report);
  }
}

/** The provider says that it is gone, and a turn waits for it: only then is a new one made. */
function replaced({ state, sandbox, taskId, network }: Known): SchedulerEvent[] {
  const next = { sandboxId: sandbox.sandboxId, generation: sandbox.generation + 1 };
  return [missing(sandbox), createRequested(state, next, { taskId, network })];
}

function missing(sandbox: Existing): SchedulerEvent {
  return { type: "SandboxMissing", data: identity(sandbox) };
}

function joinedAs(sandbox: Existing, bootId: string, report: ReportPlace): SchedulerEvent {
  return { type: "SandboxJoined", data: { ...identity(sandbox), bootId, report } };
}

/** By both: sequences start anew with the stream, and a clock can be set back. */
function isOlder(place: ReportPlace, last: ReportPlace | undefined): boolean {
  return last !== undefined && place.sequence < last.sequence && place.storedAt <= last.storedAt;
}

function endedEarly(reason: string) {
  return {
    code: "sandbox_ended_early",
    message: `The sandbox ended before it joined: ${reason}`,
    next: "Read the provider's log. `pistis doctor` tries what a sandbox needs on this machine.",
  };
}

function unexpected(sandbox: Sandbox, report: Report): Refusal {
  return new Refusal("report_unexpected", `A sandbox that is ${sandbox.status} cannot be reported as ${report.kind}`);
}
