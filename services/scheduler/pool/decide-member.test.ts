import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { EgressFinding } from "#schemas/network/egress-finding.ts";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { specify } from "#shared/testing/given.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { decide } from "../sandbox/decide.ts";
import { evolve, initialState } from "../sandbox/sandbox.ts";
import { handoverOf } from "./member.ts";

const { given } = specify({ initialState, evolve, decide });

const NOW = Date.parse("2026-11-30T12:00:00.000Z");
const HOUR_MS = 3_600_000;
const member = "ses_pool01";
const about = { sandboxId: "sbx_pool01", generation: 1 };
const network = { mode: "none" as const };
const spec: SandboxSpec = { image: null, memoryMiB: 512, cpuCores: 1, processesMax: 64, diskMiB: 100, network };
const wanted = { provider: "local", spec, ageMsMax: HOUR_MS };
const findings: EgressFinding[] = [{ target: "a host", expected: "closed", outcome: "unreachable", ok: true }];

const added: PistisEvent = {
  type: "PoolMemberAdded",
  data: { provider: "local", spec, addedAt: new Date(NOW).toISOString() },
};
const createRequested: PistisEvent = {
  type: "SandboxCreateRequested",
  data: { ...about, provider: "local", taskId: "tsk_1", network },
};
const created: PistisEvent = { type: "SandboxCreated", data: { ...about, durationMs: 40 } };
const joined: PistisEvent = { type: "SandboxJoined", data: { ...about, bootId: "a", report: reportPlace(1) } };
const probed = (passed: boolean): PistisEvent => ({
  type: "EgressProbed",
  data: { ...about, passed, findings, durationMs: 9 },
});
const stopped: PistisEvent = { type: "SandboxStopped", data: { ...about, reason: "killed" } };
const claimed = (claimedBy: string): PistisEvent => ({ type: "PoolMemberClaimed", data: { claimedBy } });
const retired: PistisEvent = { type: "PoolMemberRetired", data: { reason: "r" } };
const deleteRequested: PistisEvent = {
  type: "SandboxDeleteRequested",
  data: { ...about, provider: "local", taskId: "tsk_2" },
};

const up = [added, createRequested, created, joined, probed(true)];
const add = {
  type: "AddPoolMember" as const,
  session: member,
  provider: "local",
  spec,
  addedAt: new Date(NOW).toISOString(),
};
const claim = (claimedBy: string, changes: object = {}) => ({
  type: "ClaimPoolMember" as const,
  session: member,
  claimedBy,
  wanted: { ...wanted, ...changes },
  now: NOW + 1_000,
});
const received = {
  type: "RecordReport" as const,
  taskId: "tsk_9",
  network,
  redelivered: false,
  place: reportPlace(3),
};
const retire = { type: "RetirePoolMember" as const, session: member, reason: "r" };

describe("a warm sandbox", () => {
  it("is added once, and asks its provider for what any session does", () => {
    given().when(add).then(added);
    given(added).when(add).thenNothing();
    given(added).when({ type: "AnswerNeed", session: member, taskId: "tsk_1", network }).then(createRequested);
  });

  it("is claimed when it is up and found closed, and not before", () => {
    given(...up)
      .when(claim("ses_1"))
      .then(claimed("ses_1"));
    const before = [[], [added], [added, createRequested, created], [added, createRequested, joined]];
    for (const history of before) {
      given(...history)
        .when(claim("ses_1"))
        .thenRefused("member_not_ready");
    }
    given(added, createRequested, created, joined, probed(false)).when(claim("ses_1")).thenRefused("member_not_ready");
    const anew: PistisEvent = { type: "SandboxJoined", data: { ...about, bootId: "b", report: reportPlace(2) } };
    for (const fact of [stopped, anew]) {
      given(...up, fact)
        .when(claim("ses_1"))
        .thenRefused("member_not_ready");
    }
  });

  it("is claimed by one session only, for ever", () => {
    given(...up, claimed("ses_1"))
      .when(claim("ses_2"))
      .thenRefused("member_claimed");
    given(...up, claimed("ses_1"))
      .when(claim("ses_1"))
      .thenNothing();
  });

  it("goes to nobody when it is of another kind or too old", () => {
    for (const changes of [
      { provider: "docker" },
      { spec: { ...spec, memoryMiB: 1_024 } },
      { spec: { ...spec, network: { mode: "open" } } },
      { ageMsMax: 999 },
    ]) {
      given(...up)
        .when(claim("ses_1", changes))
        .thenRefused("member_not_ready");
    }
  });

  it("is retired once, then deleted, and never claimed", () => {
    given(...up)
      .when(retire)
      .then(retired);
    given(...up, retired)
      .when(retire)
      .thenNothing();
    given(...up, retired)
      .when(claim("ses_1"))
      .thenRefused("member_retired");
    given(...up, retired)
      .when({ type: "DeleteSandbox", session: member, taskId: "tsk_2" })
      .then(deleteRequested);
  });

  it("is not retired once a session has claimed it, unless that session can never have it", () => {
    const taken = [...up, claimed("ses_1")];
    given(...taken)
      .when(retire)
      .thenRefused("member_claimed");
    given(...taken)
      .when({ ...retire, voidClaimBy: "ses_2" })
      .thenRefused("member_claimed");
    given(...taken)
      .when({ ...retire, voidClaimBy: "ses_1" })
      .then(retired);
  });

  it("stays out of the pool when it was retired before it was begun", () => {
    given().when(retire).then(retired);
    given(retired).when(add).thenNothing();
  });

  it("takes no report from the claim on: what happens to it is the session's", () => {
    const report = { kind: "state" as const, ...about, session: member, state: "stopped" as const, reason: "killed" };
    const record = { ...received, session: member };
    const command = { ...record, reporter: "provider-local", report };
    given(...up)
      .when(command)
      .then(stopped);
    given(...up, claimed("ses_1"))
      .when(command)
      .thenRefused("sandbox_changes_hands");
    given(...up, claimed("ses_1"), retired)
      .when(command)
      .then(stopped);
  });
});

describe("a session that gets a warm sandbox", () => {
  const opened: PistisEvent = { type: "SessionCreated", data: { title: "t", model: "script", provider: "local" } };
  const needed: PistisEvent = { type: "SandboxNeeded", data: { turnId: "trn_1", reason: "absent" } };
  const facts = [createRequested, created, joined, probed(true)];
  const handover = handoverOf(up.reduce(evolve, initialState));
  if (handover === undefined) throw new Error("It is up");
  const adopt = { type: "AdoptPoolMember" as const, session: "ses_1", handover };

  it("has the facts of one that was made for it, once", () => {
    given(opened, needed)
      .when(adopt)
      .then(...facts);
    given(opened, needed, ...facts)
      .when(adopt)
      .thenNothing();
    const after = [opened, needed, ...facts].reduce(evolve, initialState);
    expect(after.sandbox).to.deep.equal({ status: "joined", ...about, bootId: "a" });
    expect(after).to.include({ need: undefined, probedGeneration: 1, pool: undefined });
  });

  it("says nothing of its making when the provider has not said how long it took", () => {
    const [, ...rest] = facts;
    const early = handoverOf([added, createRequested, joined, probed(true)].reduce(evolve, initialState));
    if (early === undefined) throw new Error("It is up");
    given(opened, needed)
      .when({ ...adopt, handover: early })
      .then(createRequested, ...rest.filter(({ type }) => type !== "SandboxCreated"));
  });

  it("refuses for ever when it is over or has another one", () => {
    const own: PistisEvent = {
      type: "SandboxCreateRequested",
      data: { sandboxId: "sbx_1", generation: 1, provider: "local", taskId: "tsk_7", network },
    };
    const ended: PistisEvent = { type: "SessionEnded", data: {} };
    given(opened, needed, own).when(adopt).thenRefused("claim_void");
    given(opened, needed, ended).when(adopt).thenRefused("claim_void");
  });

  it("asks for it as for its own: again after a stop, anew when it is gone, under the same id", () => {
    const has = [opened, needed, ...facts];
    const again: PistisEvent = { type: "SandboxNeeded", data: { turnId: "trn_2", reason: "stopped" } };
    const answerNeed = { type: "AnswerNeed" as const, session: "ses_1", taskId: "tsk_3", network };
    given(...has, stopped, again)
      .when(answerNeed)
      .then({ type: "SandboxRestartRequested", data: { ...about, provider: "local", taskId: "tsk_3" } });
    given(...has, { type: "SandboxMissing", data: about }, again)
      .when(answerNeed)
      .then({
        type: "SandboxCreateRequested",
        data: { sandboxId: about.sandboxId, generation: 2, provider: "local", taskId: "tsk_3", network },
      });
    const report = { kind: "state" as const, ...about, session: member, state: "stopped" as const, reason: "killed" };
    const record = { ...received, session: "ses_1" };
    given(...has)
      .when({ ...record, reporter: "provider-local", report })
      .then(stopped);
    given(...has)
      .when({ ...record, reporter: "provider-local", report: { ...report, session: "ses_1" } })
      .thenRefused("report_foreign");
  });
});
