// Events and commands of one session's sandbox, for the tests of its decider.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { EgressFinding } from "#schemas/network/egress-finding.ts";
import type { Report } from "#schemas/provider/task.ts";
import { specify } from "#shared/testing/given.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { decide, type SandboxCommand } from "../sandbox/decide.ts";
import { evolve, initialState } from "../sandbox/sandbox.ts";

export const { given } = specify({ initialState, evolve, decide });

export const session = "ses_1";
export const sandboxId = "sbx_1";
export const first = { sandboxId, generation: 1 };
export const second = { sandboxId, generation: 2 };
export const asked = (taskId: string, about = first) => ({ ...about, provider: "local", taskId });
export const network = { mode: "allow" as const, allow: ["example.com"] };
export const failure = { code: "no_room", message: "The disk is full", next: "Make room" };

export const opened: PistisEvent = { type: "SessionCreated", data: { title: "t", model: "script", provider: "local" } };
export const ended: PistisEvent = { type: "SessionEnded", data: {} };
export const needed = (reason: "absent" | "stopped" | "unreachable" | "unprobed"): PistisEvent => ({
  type: "SandboxNeeded",
  data: { turnId: "trn_1", reason },
});
export const createRequested = (taskId = "tsk_c", about = first): PistisEvent => ({
  type: "SandboxCreateRequested",
  data: { ...asked(taskId, about), network },
});
export const restartRequested = (taskId = "tsk_r"): PistisEvent => ({
  type: "SandboxRestartRequested",
  data: asked(taskId),
});
export const inspectRequested = (taskId = "tsk_i"): PistisEvent => ({
  type: "SandboxInspectRequested",
  data: asked(taskId),
});
export const deleteRequested = (taskId = "tsk_d"): PistisEvent => ({
  type: "SandboxDeleteRequested",
  data: asked(taskId),
});
export const created: PistisEvent = { type: "SandboxCreated", data: { ...first, durationMs: 7 } };
export const restarted: PistisEvent = { type: "SandboxRestarted", data: { ...first, durationMs: 7 } };
/** Starts of pistisd are named "a", "b" and so on, and reported in that order. */
export const placeOfJoin = (bootId: string) => reportPlace(bootId.charCodeAt(0));
export const joined = (bootId: string, about = first): PistisEvent => ({
  type: "SandboxJoined",
  data: { ...about, bootId, report: placeOfJoin(bootId) },
});
export const stopped: PistisEvent = { type: "SandboxStopped", data: { ...first, reason: "killed" } };
export const missing: PistisEvent = { type: "SandboxMissing", data: first };
export const destroyed: PistisEvent = { type: "SandboxDestroyed", data: first };
export const failed: PistisEvent = { type: "SandboxFailed", data: { ...first, failure } };

export const answerNeed: SandboxCommand = { type: "AnswerNeed", session, taskId: "tsk_new", network };
export const deleteSandbox: SandboxCommand = { type: "DeleteSandbox", session, taskId: "tsk_new" };
export const giveUp = (openTaskId: string): SandboxCommand => ({
  type: "GiveUpRequest",
  session,
  taskId: "tsk_new",
  openTaskId,
  afterMs: 60_000,
});
export const says = (
  reporter: string,
  report: Report,
  { redelivered = false, place = reportPlace(1_000) } = {},
): SandboxCommand => ({
  type: "RecordReport",
  session,
  taskId: "tsk_new",
  network,
  reporter,
  redelivered,
  place,
  report,
});
export const fromProvider = (report: Report, redelivered = false) => says("provider-local", report, { redelivered });
export const seen = { ...first, session };
export const reports = {
  created: (taskId = "tsk_c") => fromProvider({ kind: "created", ...seen, taskId, durationMs: 7 }),
  restarted: (taskId = "tsk_r") => fromProvider({ kind: "restarted", ...seen, taskId, durationMs: 7 }),
  destroyed: (taskId = "tsk_d") => fromProvider({ kind: "destroyed", ...seen, taskId }),
  failed: (taskId: string, code = "no_room") =>
    fromProvider({ kind: "failed", ...seen, taskId, failure: { ...failure, code } }),
  joined: (bootId: string) => says("relay", { kind: "joined", ...first, bootId }, { place: placeOfJoin(bootId) }),
  state: (state: "running" | "stopped" | "missing", redelivered = false) =>
    fromProvider({ kind: "state", ...seen, state, reason: "killed" }, redelivered),
};

export const shut: EgressFinding = { target: "a host", expected: "closed", outcome: "unreachable", ok: true };
export const leak: EgressFinding = { target: "another", expected: "closed", outcome: "answered", ok: false };
export const probed = (passed: boolean, about = first): PistisEvent => ({
  type: "EgressProbed",
  data: { ...about, passed, findings: passed ? [shut] : [shut, leak], durationMs: 9 },
});
export const recordProbe = (findings: EgressFinding[], generation = 1): SandboxCommand => ({
  type: "RecordProbe",
  session,
  generation,
  findings,
  durationMs: 9,
});

export const creating = [opened, needed("absent"), createRequested()];
export const up = [...creating, created, joined("a")];
export const inspecting = [...up, needed("unreachable"), inspectRequested()];
export const restarting = [...up, stopped, needed("stopped"), restartRequested()];
