import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import {
  answerNeed,
  asked,
  created,
  createRequested,
  creating,
  deleteRequested,
  deleteSandbox,
  destroyed,
  ended,
  failed,
  given,
  giveUp,
  inspecting,
  inspectRequested,
  joined,
  missing,
  needed,
  network,
  opened,
  reports,
  restarting,
  restartRequested,
  second,
  session,
  stopped,
  up,
} from "../testing/sandbox-fixture.ts";
import { DELETE_ATTEMPTS_MAX, decide } from "./decide.ts";
import { evolve, initialState, sandboxIdOf, sessionOf } from "./sandbox.ts";

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
});
