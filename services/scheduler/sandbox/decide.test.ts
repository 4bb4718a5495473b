import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { EgressFinding } from "#schemas/network/egress-finding.ts";
import type { Report } from "#schemas/provider/task.ts";
import { specify } from "#shared/testing/given.ts";
import { DELETE_ATTEMPTS_MAX, decide, type SandboxCommand } from "./decide.ts";
import { sandboxToProbe } from "./decide-probe.ts";
import { evolve, initialState, sandboxIdOf, sessionOf } from "./sandbox.ts";

const { given } = specify({ initialState, evolve, decide });

const session = "ses_1";
const sandboxId = "sbx_1";
const first = { sandboxId, generation: 1 };
const second = { sandboxId, generation: 2 };
const asked = (taskId: string, about = first) => ({ ...about, provider: "local", taskId });
const network = { mode: "allow" as const, allow: ["example.com"] };
const failure = { code: "no_room", message: "The disk is full", next: "Make room" };

const opened: PistisEvent = { type: "SessionCreated", data: { title: "t", model: "script", provider: "local" } };
const ended: PistisEvent = { type: "SessionEnded", data: {} };
const needed = (reason: "absent" | "stopped" | "unreachable" | "unprobed"): PistisEvent => ({
  type: "SandboxNeeded",
  data: { turnId: "trn_1", reason },
});
const createRequested = (taskId = "tsk_c", about = first): PistisEvent => ({
  type: "SandboxCreateRequested",
  data: { ...asked(taskId, about), network },
});
const restartRequested = (taskId = "tsk_r"): PistisEvent => ({ type: "SandboxRestartRequested", data: asked(taskId) });
const inspectRequested = (taskId = "tsk_i"): PistisEvent => ({ type: "SandboxInspectRequested", data: asked(taskId) });
const deleteRequested = (taskId = "tsk_d"): PistisEvent => ({ type: "SandboxDeleteRequested", data: asked(taskId) });
const created: PistisEvent = { type: "SandboxCreated", data: { ...first, durationMs: 7 } };
const restarted: PistisEvent = { type: "SandboxRestarted", data: { ...first, durationMs: 7 } };
const joined = (bootId: string, about = first): PistisEvent => ({ type: "SandboxJoined", data: { ...about, bootId } });
const stopped: PistisEvent = { type: "SandboxStopped", data: { ...first, reason: "killed" } };
const missing: PistisEvent = { type: "SandboxMissing", data: first };
const destroyed: PistisEvent = { type: "SandboxDestroyed", data: first };
const failed: PistisEvent = { type: "SandboxFailed", data: { ...first, failure } };

const answerNeed: SandboxCommand = { type: "AnswerNeed", session, taskId: "tsk_new", network };
const deleteSandbox: SandboxCommand = { type: "DeleteSandbox", session, taskId: "tsk_new" };
const giveUp = (openTaskId: string): SandboxCommand => ({
  type: "GiveUpRequest",
  session,
  taskId: "tsk_new",
  openTaskId,
  afterMs: 60_000,
});
const says = (reporter: string, report: Report, redelivered = false): SandboxCommand => ({
  type: "RecordReport",
  session,
  taskId: "tsk_new",
  network,
  reporter,
  redelivered,
  report,
});
const fromProvider = (report: Report, redelivered = false) => says("provider-local", report, redelivered);
const seen = { ...first, session };
const reports = {
  created: (taskId = "tsk_c") => fromProvider({ kind: "created", ...seen, taskId, durationMs: 7 }),
  restarted: (taskId = "tsk_r") => fromProvider({ kind: "restarted", ...seen, taskId, durationMs: 7 }),
  destroyed: (taskId = "tsk_d") => fromProvider({ kind: "destroyed", ...seen, taskId }),
  failed: (taskId: string, code = "no_room") =>
    fromProvider({ kind: "failed", ...seen, taskId, failure: { ...failure, code } }),
  joined: (bootId: string) => says("relay", { kind: "joined", ...first, bootId }),
  state: (state: "running" | "stopped" | "missing", redelivered = false) =>
    fromProvider({ kind: "state", ...seen, state, reason: "killed" }, redelivered),
};

const shut: EgressFinding = { target: "a host", expected: "closed", outcome: "unreachable", ok: true };
const leak: EgressFinding = { target: "another", expected: "closed", outcome: "answered", ok: false };
const probed = (passed: boolean, about = first): PistisEvent => ({
  type: "EgressProbed",
  data: { ...about, passed, findings: passed ? [shut] : [shut, leak], durationMs: 9 },
});
const recordProbe = (findings: EgressFinding[], generation = 1): SandboxCommand => ({
  type: "RecordProbe",
  session,
  generation,
  findings,
  durationMs: 9,
});

const creating = [opened, needed("absent"), createRequested()];
const up = [...creating, created, joined("a")];
const inspecting = [...up, needed("unreachable"), inspectRequested()];
const restarting = [...up, stopped, needed("stopped"), restartRequested()];

describe("the probe of a sandbox's network", () => {
  it("C117: is a fact that passed only when all that was tried came out as it should", () => {
    given(...up)
      .when(recordProbe([shut]))
      .then(probed(true));
    given(...up)
      .when(recordProbe([shut, leak]))
      .then(probed(false));
    given(...inspecting)
      .when(recordProbe([shut]))
      .then(probed(true));
  });

  it("is about the sandbox that is there, and no other", () => {
    given(...up)
      .when(recordProbe([shut], 2))
      .thenRefused("probe_stale");
    given(...restarting)
      .when(recordProbe([shut]))
      .thenRefused("probe_stale");
    given(opened)
      .when(recordProbe([shut]))
      .thenRefused("probe_stale");
  });

  it("is made until one passed, once for each generation", () => {
    const isLeft = (...events: PistisEvent[]) => sandboxToProbe(events.reduce(evolve, initialState)) !== undefined;
    expect(isLeft(...creating)).to.equal(false);
    expect(isLeft(...up)).to.equal(true);
    expect(isLeft(...up, probed(false))).to.equal(true);
    expect(isLeft(...inspecting)).to.equal(true);
    expect(isLeft(...up, probed(true))).to.equal(false);
    expect(isLeft(...up, probed(true), stopped, needed("stopped"), restartRequested(), joined("b"))).to.equal(false);
    const replaced = [...up, probed(true), missing, needed("absent"), createRequested("tsk_2", second)];
    expect(isLeft(...replaced, joined("b", second))).to.equal(true);
    expect(isLeft(...up, ended)).to.equal(false);
  });

  it("changes nothing once it has passed, whatever is reported again", () => {
    given(...up, probed(true))
      .when(recordProbe([leak]))
      .thenNothing();
    given(...up, probed(false))
      .when(recordProbe([shut]))
      .then(probed(true));
  });

  it("asks the provider about a sandbox that a turn waits for: it may answer no probe because it is gone", () => {
    given(...up, probed(false), needed("unprobed"))
      .when(answerNeed)
      .then(inspectRequested("tsk_new"));
  });
});

describe("a session's sandbox", () => {
  it("S60: keeps the network that it was made with; a new generation has what is set then", () => {
    const now = { mode: "none" as const };
    const later = { mode: "open" as const };
    expect([...creating, created, joined("a")].reduce(evolve, initialState).network).to.deep.equal(network);
    const gone = [...up, missing, needed("absent")];
    given(...gone)
      .when({ type: "AnswerNeed", session, taskId: "tsk_new", network: later })
      .then({
        type: "SandboxCreateRequested",
        data: { ...asked("tsk_new", second), network: later },
      });
    given(...creating, failed, needed("absent"))
      .when({ type: "AnswerNeed", session, taskId: "tsk_n", network: now })
      .then({ type: "SandboxCreateRequested", data: { ...asked("tsk_n"), network } });
  });

  it("has an id from which the session's is known", () => {
    expect(sandboxIdOf("ses_01abc")).to.equal("sbx_01abc");
    expect(sessionOf("sbx_01abc")).to.equal("ses_01abc");
  });

  describe("when a turn needs it", () => {
    it("is asked for once", () => {
      given(opened, needed("absent")).when(answerNeed).then(createRequested("tsk_new"));
      given(...creating)
        .when(answerNeed)
        .thenNothing();
      given(...creating, needed("absent"))
        .when(answerNeed)
        .thenNothing();
      given(...up)
        .when(answerNeed)
        .thenNothing();
    });

    it("is restarted with its disk when it stopped (C3)", () => {
      given(...up, stopped, needed("stopped"))
        .when(answerNeed)
        .then(restartRequested("tsk_new"));
      given(...restarting)
        .when(answerNeed)
        .thenNothing();
    });

    it("C4: is inspected, not replaced, when it cannot be reached (I8)", () => {
      given(...up, needed("unreachable"))
        .when(answerNeed)
        .then(inspectRequested("tsk_new"));
      given(...inspecting)
        .when(answerNeed)
        .thenNothing();
      given(...inspecting, needed("unreachable"))
        .when(answerNeed)
        .then(inspectRequested("tsk_new"));
    });

    it("is made anew, as a new generation, only when its provider said that it is gone (I8)", () => {
      given(...up, missing, needed("absent"))
        .when(answerNeed)
        .then(createRequested("tsk_new", second));
    });

    it("is asked for again the same way when that failed (C6)", () => {
      given(...creating, failed, needed("absent"))
        .when(answerNeed)
        .then(createRequested("tsk_new"));
      given(...restarting, failed, needed("absent"))
        .when(answerNeed)
        .then(restartRequested("tsk_new"));
      given(...inspecting, failed, needed("absent"))
        .when(answerNeed)
        .then(inspectRequested("tsk_new"));
    });

    it("is not made for a session that ended", () => {
      given(opened, needed("absent"), ended).when(answerNeed).thenNothing();
    });
  });

  describe("when something is reported", () => {
    it("is created once", () => {
      given(...creating)
        .when(reports.created())
        .then(created);
      given(...creating, created)
        .when(reports.created())
        .thenNothing();
      given(...creating, joined("a"))
        .when(reports.created())
        .thenNothing();
      given(...creating)
        .when(reports.created("tsk_other"))
        .thenRefused("report_unexpected");
    });

    it("is restarted once", () => {
      given(...restarting)
        .when(reports.restarted())
        .then(restarted);
      given(...restarting, restarted)
        .when(reports.restarted())
        .thenNothing();
      given(...up)
        .when(reports.destroyed())
        .thenRefused("report_unexpected");
    });

    it("joins once with each start of pistisd, before or after its provider's answer", () => {
      given(...creating)
        .when(reports.joined("a"))
        .then(joined("a"));
      given(...creating, created)
        .when(reports.joined("a"))
        .then(joined("a"));
      given(...up)
        .when(reports.joined("a"))
        .thenNothing();
      given(...up)
        .when(reports.joined("b"))
        .then(joined("b"));
      given(...restarting, joined("b"))
        .when(reports.joined("a"))
        .thenNothing();
    });

    it("joins late after it was given up", () => {
      given(...creating, failed)
        .when(reports.joined("a"))
        .then(joined("a"));
    });

    it("cannot join once it is stopped, gone or deleted", () => {
      for (const end of [stopped, missing, deleteRequested(), destroyed]) {
        given(...up, end)
          .when(reports.joined("b"))
          .thenRefused("report_unexpected");
      }
    });

    it("stops when its processes are gone", () => {
      given(...up)
        .when(reports.state("stopped"))
        .then(stopped);
      given(...up, stopped)
        .when(reports.state("stopped"))
        .thenNothing();
      given(...up)
        .when(reports.state("running"))
        .thenNothing();
    });

    it("is inspected rather than believed stopped when the report may be an old one", () => {
      given(...up)
        .when(reports.state("stopped", true))
        .then(inspectRequested("tsk_new"));
      const looking = [...up, inspectRequested()];
      given(...looking)
        .when(reports.state("stopped"))
        .then(stopped);
      given(...looking)
        .when(reports.state("running"))
        .thenNothing();
      given(...looking)
        .when(giveUp("tsk_i"))
        .thenNothing();
    });

    it("is restarted when an inspection for a turn finds it stopped", () => {
      given(...inspecting)
        .when(reports.state("stopped"))
        .then(stopped, restartRequested("tsk_new"));
      given(...inspecting, stopped, restartRequested())
        .when(reports.state("stopped"))
        .thenNothing();
    });

    it("is replaced when an inspection for a turn, or a restart, finds it gone (I8)", () => {
      const replaced = [missing, createRequested("tsk_new", second)];
      given(...inspecting)
        .when(reports.state("missing"))
        .then(...replaced);
      given(...restarting)
        .when(reports.failed("tsk_r", "sandbox_missing"))
        .then(...replaced);
    });

    it("is said to be there again when the inspection after a failed one finds it running", () => {
      given(...inspecting)
        .when(reports.state("running"))
        .thenNothing();
      const again = [...inspecting, failed, needed("absent"), inspectRequested("tsk_j")];
      given(...again)
        .when(reports.state("running"))
        .then(joined("a"));
    });

    it("fails with its provider's reason", () => {
      given(...creating)
        .when(reports.failed("tsk_c"))
        .then(failed);
      given(...creating)
        .when(reports.failed("tsk_other"))
        .thenRefused("report_unexpected");
      given(...creating, failed)
        .when(reports.failed("tsk_c"))
        .thenRefused("report_unexpected");
    });

    it("fails when it ends between its start and its join", () => {
      const early = (history: PistisEvent[]) => decide(history.reduce(evolve, initialState), reports.state("stopped"));
      expect(early([...creating, created])).to.have.nested.property("[0].data.failure.code", "sandbox_ended_early");
      expect(early([...restarting, restarted])).to.have.nested.property("[0].data.failure.code", "sandbox_ended_early");
      expect(early([...creating])).to.deep.equal([]);
      expect(early([...restarting])).to.deep.equal([]);
    });
  });

  describe("when a report does not fit", () => {
    it("knows no sandbox that was never asked for", () => {
      given(opened).when(reports.created()).thenRefused("report_unknown_sandbox");
      given().when(reports.joined("a")).thenRefused("report_unknown_sandbox");
    });

    it("refuses an older or a made-up generation", () => {
      const replaced = [...up, missing, needed("absent"), createRequested("tsk_c2", second)];
      given(...replaced)
        .when(reports.state("stopped"))
        .thenRefused("report_stale");
      given(...up)
        .when(says("relay", { kind: "joined", ...second, bootId: "b" }))
        .thenRefused("report_stale");
    });

    it("refuses a provider that speaks for the relay, for another provider or for another session", () => {
      const state: Report = { kind: "state", ...seen, state: "stopped", reason: "" };
      given(...creating)
        .when(fromProvider({ kind: "joined", ...first, bootId: "b" }))
        .thenRefused("report_foreign");
      given(...up)
        .when(says("relay", state))
        .thenRefused("report_foreign");
      given(...up)
        .when(says("provider-other", state))
        .thenRefused("report_foreign");
      given(...up)
        .when(fromProvider({ ...state, session: "ses_2" }))
        .thenRefused("report_foreign");
    });
  });

  describe("when its time is over", () => {
    const codeOf = (history: PistisEvent[], openTaskId: string) =>
      decide(history.reduce(evolve, initialState), giveUp(openTaskId)).map((event) =>
        event.type === "SandboxFailed" ? event.data.failure.code : event.type,
      );

    it("C43: fails with what did not happen and a next step", () => {
      expect(codeOf(creating, "tsk_c")).to.deep.equal(["provider_silent"]);
      expect(codeOf([...creating, created], "tsk_c")).to.deep.equal(["sandbox_never_joined"]);
      expect(codeOf(restarting, "tsk_r")).to.deep.equal(["provider_silent"]);
      const [event] = decide(creating.reduce(evolve, initialState), giveUp("tsk_c"));
      expect(event).to.have.nested.property("data.failure.next").that.includes("sandboxes.startMs");
    });

    it("is not called failed by an inspection: that it runs is an answer without a trace", () => {
      given(...inspecting)
        .when(giveUp("tsk_i"))
        .thenNothing();
    });

    it("stays as it is when the request was answered or another one is open", () => {
      given(...up)
        .when(giveUp("tsk_c"))
        .thenNothing();
      given(...creating)
        .when(giveUp("tsk_older"))
        .thenNothing();
      given(...creating, failed)
        .when(giveUp("tsk_c"))
        .thenNothing();
    });

    it("C57: is asked to be deleted again, and not for ever", () => {
      given(...up, ended, deleteRequested())
        .when(giveUp("tsk_d"))
        .then(deleteRequested("tsk_new"));
      const often = Array.from({ length: DELETE_ATTEMPTS_MAX }, () => deleteRequested());
      expect(codeOf([...up, ended, ...often], "tsk_d")).to.deep.equal(["sandbox_undeletable"]);
    });
  });

  describe("when its session ended", () => {
    it("is deleted once, whatever it was doing (S24)", () => {
      for (const history of [creating, up, inspecting, restarting, [...up, missing], [...creating, failed]]) {
        given(...history, ended)
          .when(deleteSandbox)
          .then(deleteRequested("tsk_new"));
      }
      given(opened, ended).when(deleteSandbox).thenNothing();
      given(...up, ended, deleteRequested())
        .when(deleteSandbox)
        .thenNothing();
      given(...up, ended, deleteRequested(), destroyed)
        .when(deleteSandbox)
        .thenNothing();
    });

    it("I7: is not deleted while its session goes on", () => {
      given(...up)
        .when(deleteSandbox)
        .thenRefused("session_open");
    });

    it("is destroyed once, by an answer to any of the requests", () => {
      given(...up, ended, deleteRequested())
        .when(reports.destroyed())
        .then(destroyed);
      given(...up, ended, deleteRequested(), deleteRequested("tsk_e"))
        .when(reports.destroyed())
        .then(destroyed);
      given(...up, ended, deleteRequested(), destroyed)
        .when(reports.destroyed())
        .thenNothing();
    });

    it("goes on waiting when a deletion failed: it is asked for again in time", () => {
      given(...up, ended, deleteRequested())
        .when(reports.failed("tsk_d"))
        .thenNothing();
    });
  });

  describe("when the egress service tells what it asked for", () => {
    const request = {
      ...{ host: "example.com", port: 443, via: "connect" as const, allowed: true, reason: "ended" as const },
      ...{ bytesUp: 1, bytesDown: 2, durationMs: 3 },
    };
    const untold = { allowed: 0, refused: 7, bytesUp: 0, bytesDown: 0 };
    const tells = (batch: string, generation = 1, reporter = "egress") =>
      says(reporter, { kind: "egress", sandboxId, generation, batch, requests: [request, request], untold });
    const about = (batch: string, generation = 1) => ({ sandboxId, generation, batch });
    const logged = (batch: string, generation = 1): PistisEvent[] => [
      { type: "EgressLogged", data: { ...about(batch, generation), ...request } },
      { type: "EgressLogged", data: { ...about(batch, generation), ...request } },
      { type: "EgressSummarised", data: { ...about(batch, generation), ...untold } },
    ];

    it("S60: records each request and the sum of the rest, once however often the report comes", () => {
      given(...up)
        .when(tells("evt_1"))
        .then(...logged("evt_1"));
      given(...up, ...logged("evt_1"))
        .when(tells("evt_1"))
        .thenNothing();
      given(...up, ...logged("evt_1"))
        .when(tells("evt_2"))
        .then(...logged("evt_2"));
    });

    it("records it also when the sandbox is gone or another generation took its place", () => {
      const replaced = [...up, missing, needed("absent"), createRequested("tsk_c2", second)];
      given(...replaced)
        .when(tells("evt_1"))
        .then(...logged("evt_1"));
      given(...up, ended, deleteRequested(), destroyed)
        .when(tells("evt_1"))
        .then(...logged("evt_1"));
    });

    it("believes nobody else, and nothing about a sandbox that was never asked for", () => {
      given(...up)
        .when(tells("evt_1", 1, "provider-local"))
        .thenRefused("report_foreign");
      given(...up)
        .when(tells("evt_1", 2))
        .thenRefused("report_stale");
      given(opened).when(tells("evt_1")).thenRefused("report_unknown_sandbox");
    });
  });
});
