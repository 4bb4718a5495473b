import { expect } from "chai";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import { specify } from "#shared/testing/given.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { decide, type RepositoryCommand } from "./decide.ts";
import { evolve, initialState } from "./repository.ts";

const { given } = specify({ initialState, evolve, decide });

const sandbox = { sandboxId: "sbx_1", generation: 1, bootId: "boot1" };
const copy = { commit: "a".repeat(40), branch: "main", bundleBytes: 1, shallow: false, durationMs: 1 };
const failure = { code: "auth_failed", message: "No" };
const about = { sandboxId: "sbx_1", generation: 1 };

const created: PistisEvent = {
  type: "SessionCreated",
  data: { title: "", model: "script", provider: "local", repository: { url: "https://example.com/a" } },
};
const joined: PistisEvent = { type: "SandboxJoined", data: { ...sandbox, report: reportPlace(1) } };
const rejoined: PistisEvent = { type: "SandboxJoined", data: { ...sandbox, bootId: "boot2", report: reportPlace(2) } };
const replaced: PistisEvent = {
  type: "SandboxJoined",
  data: { sandboxId: "sbx_2", generation: 2, bootId: "boot3", report: reportPlace(3) },
};
const findings = [{ target: "a host", expected: "closed" as const, outcome: "unreachable" as const, ok: true }];
const probed: PistisEvent = { type: "EgressProbed", data: { ...about, passed: true, findings, durationMs: 1 } };
const open: PistisEvent = { type: "EgressProbed", data: { ...about, passed: false, findings, durationMs: 1 } };
const stopped: PistisEvent = { type: "SandboxStopped", data: { ...about, reason: "ended" } };
const copied: EventOf<"RepositoryCopied"> = { type: "RepositoryCopied", data: { ...about, ...copy } };
const copyFailed: EventOf<"RepositoryCopyFailed"> = { type: "RepositoryCopyFailed", data: { ...about, failure } };
const turn: PistisEvent = {
  type: "TurnStarted",
  data: { turnId: "trn_1", epoch: 1, brain: "b", messageIds: ["msg_1"] },
};
const record: RepositoryCommand = { type: "RecordCopy", sandbox, copy };
const recordFailure: RepositoryCommand = { type: "RecordFailure", sandbox, failure };

describe("a session's repository", () => {
  it("is copied once into each generation of the sandbox", () => {
    given(created, joined, probed).when(record).then(copied);
    given(created, joined, probed, copied).when(record).thenNothing();
    given(created, joined, probed, copied, stopped, rejoined).when(record).thenNothing();
    given(created, joined, probed, copied, replaced).when(record).thenNothing();
    const second = { sandboxId: "sbx_2", generation: 2 };
    given(created, joined, probed, copied, replaced)
      .when({ ...record, sandbox: { ...second, bootId: "boot3" } })
      .then({ type: "RepositoryCopied", data: { ...second, ...copy } });
  });

  it("C117: is wanted in a sandbox only once its network was found closed", () => {
    const statusAfter = (...events: PistisEvent[]) => events.reduce(evolve, initialState).status;
    expect(statusAfter(created, joined)).to.equal("unprobed");
    expect(statusAfter(created, joined, open)).to.equal("unprobed");
    expect(statusAfter(created, joined, open, turn)).to.equal("unprobed");
    expect(statusAfter(created, joined, open, probed)).to.equal("wanted");
    expect(statusAfter(created, joined, probed, stopped, rejoined)).to.equal("wanted");
    expect(statusAfter(created, joined, probed, replaced)).to.equal("unprobed");
    given(created, joined).when(recordFailure).thenNothing();
  });

  it("counts as copied when its sandbox ended just after", () => {
    given(created, joined, probed, stopped).when(record).then(copied);
    given(created, joined, probed, rejoined).when(record).then(copied);
  });

  it("has failed only in the boot of the sandbox that is up", () => {
    given(created, joined, probed).when(recordFailure).then(copyFailed);
    given(created, joined, probed, stopped).when(recordFailure).thenNothing();
    given(created, joined, probed, rejoined).when(recordFailure).thenNothing();
    given(created, joined, probed, copyFailed).when(recordFailure).thenNothing();
  });

  it("is tried again when a turn starts or the sandbox joins anew", () => {
    given(created, joined, probed, copyFailed, turn).when(record).then(copied);
    given(created, joined, probed, copyFailed, turn).when(recordFailure).then(copyFailed);
    given(created, joined, probed, copyFailed, rejoined)
      .when({ ...recordFailure, sandbox: { ...sandbox, bootId: "boot2" } })
      .then(copyFailed);
  });

  it("is nothing to do in a session that has none or is over", () => {
    given(joined).when(record).thenNothing();
    given(created, joined, probed, { type: "SessionEndRequested", data: {} }).when(record).thenNothing();
    given(created, joined, probed, { type: "SessionEnded", data: {} }).when(recordFailure).thenNothing();
  });
});
