import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { EMPTY_POOL } from "#schemas/scheduler/pool.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { evolve, initialState } from "../sandbox/sandbox.ts";
import { type Listed, planPool, recordAfter, type Situation, YOUNG_MS } from "./plan.ts";

const NOW = Date.parse("2026-11-30T12:00:00.000Z");
const network = { mode: "none" as const };
const spec: SandboxSpec = { image: null, memoryMiB: 512, cpuCores: 1, processesMax: 64, diskMiB: 100, network };
const wanted = { provider: "local", spec, ageMsMax: 3_600_000 };
const about = { sandboxId: "sbx_pool1", generation: 1 };
const findings = [{ target: "a host", expected: "closed" as const, outcome: "unreachable" as const, ok: true }];

const addedAgo = (ms: number, changes: object = {}): PistisEvent => ({
  type: "PoolMemberAdded",
  data: { provider: "local", spec, addedAt: new Date(NOW - ms).toISOString(), ...changes },
});
const asked: PistisEvent = {
  type: "SandboxCreateRequested",
  data: { ...about, provider: "local", taskId: "tsk_1", network },
};
const joined: PistisEvent = { type: "SandboxJoined", data: { ...about, bootId: "a", report: reportPlace(1) } };
const probed = (passed: boolean): PistisEvent => ({
  type: "EgressProbed",
  data: { ...about, passed, findings, durationMs: 9 },
});
const up = [asked, joined, probed(true)];
const stopped: PistisEvent = { type: "SandboxStopped", data: { ...about, reason: "killed" } };
const failed: PistisEvent = {
  type: "SandboxFailed",
  data: { ...about, failure: { code: "no_room", message: "The disk is full" } },
};
const claimed: PistisEvent = { type: "PoolMemberClaimed", data: { claimedBy: "ses_1" } };
const retired: PistisEvent = { type: "PoolMemberRetired", data: { reason: "r" } };
const destroyed: PistisEvent = { type: "SandboxDestroyed", data: about };

const member = (session: string, events: PistisEvent[], changes: Partial<Listed> = {}): Listed => ({
  session,
  state: events.reduce(evolve, initialState),
  isAdopted: false,
  isLost: false,
  ...changes,
});
const ready = (session: string) => member(session, [addedAgo(YOUNG_MS), ...up]);
const situation = (listed: Listed[], changes: Partial<Situation> = {}): Situation => ({
  record: { ...EMPTY_POOL, members: listed.map(({ session }) => session) },
  listed,
  size: 2,
  wanted,
  readyMs: 120_000,
  sessionsWait: false,
  now: NOW,
  ...changes,
});
const plan = (listed: Listed[], changes: Partial<Situation> = {}) => planPool(situation(listed, changes));
const retiredOf = (listed: Listed[], changes: Partial<Situation> = {}) =>
  plan(listed, changes).retire.map(({ session, isFailure }) => [session, isFailure]);

describe("the plan of the warm pool", () => {
  it("adds one at a time, up to its size", () => {
    expect(plan([]).add).to.equal(true);
    expect(plan([member("a", [addedAgo(0), asked])]).add).to.equal(false);
    expect(plan([ready("a")]).add).to.equal(true);
    expect(plan([ready("a"), ready("b")]).add).to.equal(false);
    expect(plan([], { size: 0 }).add).to.equal(false);
  });

  it("is never above its size: what is being deleted keeps its place until it is gone", () => {
    const going = member("b", [addedAgo(0), ...up, retired]);
    expect(plan([ready("a"), going]))
      .to.include({ add: false })
      .and.deep.include({ forget: [] });
    const gone = member("b", [addedAgo(0), ...up, retired, destroyed]);
    expect(plan([ready("a"), gone]))
      .to.include({ add: true })
      .and.deep.include({ forget: ["b"] });
    const handed = member("b", [addedAgo(0), ...up, claimed]);
    expect(plan([ready("a"), handed]).add).to.equal(false);
    expect(plan([ready("a"), { ...handed, isAdopted: true }])).to.deep.include({ add: true, forget: ["b"] });
  });

  it("lets sessions that wait for a sandbox go first", () => {
    expect(plan([], { sessionsWait: true }).add).to.equal(false);
  });

  it("begins what was listed by a scheduler that died, and retires it when there is no room", () => {
    const listed = member("a", []);
    expect(plan([listed])).to.deep.include({ begin: ["a"], add: false });
    expect(plan([listed], { size: 0 }).begin).to.deep.equal([]);
    expect(retiredOf([listed], { size: 0 })).to.deep.equal([["a", false]]);
    expect(plan([member("a", [retired])], { size: 0 }).forget).to.deep.equal(["a"]);
  });

  it("retires what is too old, of another kind or too many", () => {
    expect(retiredOf([ready("a"), member("b", [addedAgo(3_600_001), ...up])])).to.deep.equal([["b", false]]);
    expect(retiredOf([member("a", [addedAgo(0, { provider: "docker" }), ...up])])).to.deep.equal([["a", false]]);
    const small = { spec: { ...spec, memoryMiB: 256 } };
    expect(retiredOf([member("a", [addedAgo(0, small), ...up])])).to.deep.equal([["a", false]]);
    expect(retiredOf([ready("a"), ready("b"), ready("c")])).to.deep.equal([["c", false]]);
  });

  it("retires what failed, ended, leaks, is lost or does not get ready", () => {
    expect(retiredOf([member("a", [addedAgo(0), asked, failed])])).to.deep.equal([["a", true]]);
    expect(retiredOf([member("a", [addedAgo(0), asked, joined, probed(false)])])).to.deep.equal([["a", true]]);
    expect(retiredOf([member("a", [addedAgo(0), ...up, stopped])])).to.deep.equal([["a", true]]);
    expect(retiredOf([member("a", [addedAgo(YOUNG_MS), ...up, stopped])])).to.deep.equal([["a", false]]);
    const anew: PistisEvent = { type: "SandboxJoined", data: { ...about, bootId: "b", report: reportPlace(2) } };
    expect(retiredOf([member("a", [addedAgo(0), ...up, anew])])).to.deep.equal([["a", false]]);
    expect(retiredOf([{ ...ready("a"), isLost: true }])).to.deep.equal([["a", false]]);
    expect(retiredOf([member("a", [addedAgo(120_001), asked, joined])])).to.deep.equal([["a", true]]);
    expect(retiredOf([member("a", [addedAgo(120_000), asked, joined])])).to.deep.equal([]);
  });

  it("leaves alone what a session has claimed", () => {
    expect(retiredOf([member("a", [addedAgo(9_000_000), ...up, claimed])])).to.deep.equal([]);
    expect(retiredOf([ready("a"), ready("b"), member("c", [addedAgo(0), ...up, claimed])])).to.deep.equal([]);
  });

  it("waits longer after each failure in a row, five minutes at most, and forgets them when one is good", () => {
    const record = { ...EMPTY_POOL, members: ["a"] };
    const nothing = { forget: [], isHealthy: false };
    const waits = (failuresInRow: number) => {
      const after = recordAfter({ record: { ...record, failuresInRow }, now: NOW }, nothing, {
        failures: 1,
        added: undefined,
      });
      return Date.parse(after.waitUntil ?? "") - NOW;
    };
    expect([0, 1, 2, 8, 50].map(waits)).to.deep.equal([1_000, 2_000, 4_000, 256_000, 300_000]);
    const waiting = { ...record, members: [], failuresInRow: 3, waitUntil: new Date(NOW + 1).toISOString() };
    expect(plan([], { record: waiting }).add).to.equal(false);
    expect(plan([], { record: waiting, now: NOW + 1 }).add).to.equal(true);
    const { isHealthy } = plan([ready("a")]);
    expect(
      recordAfter(
        { record: { ...waiting, members: ["a"] }, now: NOW },
        { forget: [], isHealthy },
        { failures: 0, added: undefined },
      ),
    ).to.deep.equal(record);
    expect(plan([member("a", [addedAgo(0), ...up])]).isHealthy).to.equal(false);
  });

  it("does not wait for a provider that is not asked any more", () => {
    const elsewhere = member("a", [addedAgo(0, { provider: "docker" }), ...up, retired]);
    expect(plan([elsewhere])).to.deep.include({ forget: ["a"], add: true });
  });
});
