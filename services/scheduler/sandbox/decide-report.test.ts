import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { Report } from "#schemas/provider/task.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import {
  created,
  createRequested,
  creating,
  deleteRequested,
  destroyed,
  ended,
  failed,
  first,
  fromProvider,
  given,
  giveUp,
  inspecting,
  inspectRequested,
  joined,
  missing,
  needed,
  opened,
  placeOfJoin,
  reports,
  restarted,
  restarting,
  restartRequested,
  says,
  second,
  seen,
  stopped,
  up,
} from "../testing/sandbox-fixture.ts";
import { decide } from "./decide.ts";
import { evolve, initialState } from "./sandbox.ts";

describe("a report about a session's sandbox", () => {
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

    it("keeps to its newest start when the report of an earlier one comes late", () => {
      given(...creating, joined("b"))
        .when(reports.joined("a"))
        .thenRefused("report_outdated");
      given(...creating, joined("b"))
        .when(reports.joined("c"))
        .then(joined("c"));
      given(...restarting, joined("c"), stopped, needed("stopped"), restartRequested())
        .when(reports.joined("b"))
        .thenRefused("report_outdated");
    });

    it("joins although the stream of reports was made anew, or its clock was set back", () => {
      const report: Report = { kind: "joined", ...first, bootId: "n" };
      const { sequence, storedAt } = placeOfJoin("a");
      for (const place of [
        { sequence: 1, storedAt: "2026-11-30T12:00:01.000Z" },
        { sequence: sequence + 1, storedAt: "2026-11-29T12:00:00.000Z" },
      ]) {
        given(...up)
          .when(says("relay", report, { place }))
          .then({ type: "SandboxJoined", data: { ...first, bootId: "n", report: place } });
      }
      given(...up)
        .when(says("relay", report, { place: { sequence: 1, storedAt } }))
        .thenRefused("report_outdated");
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

    it("is deleted again when it turns out to be there after its deletion", () => {
      const gone = [...creating, ended, deleteRequested(), destroyed];
      for (const there of [
        reports.created(),
        reports.restarted(),
        reports.state("stopped"),
        reports.state("running"),
      ]) {
        given(...gone)
          .when(there)
          .then(deleteRequested("tsk_new"));
      }
      given(...gone)
        .when(reports.state("missing"))
        .thenNothing();
      given(...gone, deleteRequested("tsk_new"))
        .when(reports.destroyed("tsk_new"))
        .then(destroyed);
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

    it("is not believed stopped by a report that is older than its last join", () => {
      const report: Report = { kind: "state", ...seen, state: "stopped", reason: "killed" };
      const old = says("provider-local", report, { place: reportPlace(1) });
      given(...up)
        .when(old)
        .then(inspectRequested("tsk_new"));
      given(...inspecting)
        .when(old)
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
});
