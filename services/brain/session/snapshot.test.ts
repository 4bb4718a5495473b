import { expect } from "chai";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { GatewayEvent } from "#schemas/ledger/events/gateway.ts";
import { newId, sha256 } from "#shared/ids/ids.ts";
import { type Ledger, NEW_SESSION } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import { memorySnapshots, SNAPSHOT_EVERY_MESSAGES } from "#shared/ledger/snapshots.ts";
import { appendMany, causeOf, versionOf } from "#shared/testing/messages.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { SessionRecord } from "./record.ts";
import { evolve, initialState, type Session } from "./session.ts";
import { brainFold, FOLD_VERSION } from "./snapshot.ts";

const turnId = "trn_1";
const sandboxId = "sbx_1";
const usage = { inputTokens: 100, outputTokens: 10, cachedInputTokens: 0 };
const failure = { code: "no_disk", message: "No disk", next: "Make room" };
const call = (callId: string) => ({ type: "tool-call", callId, modelCallId: callId, tool: "bash", input: {} }) as const;
const reply = (replyId: string, ...calls: string[]): PistisEvent => ({
  type: "ModelReplied",
  data: {
    turnId,
    replyId,
    model: "m",
    content: [
      { type: "reasoning", text: "Hm", providerMetadata: { a: { signature: "s" } } },
      { type: "text", text: "x".repeat(3_000) },
      ...calls.map(call),
    ],
    finishReason: "tool-calls",
    usage,
    costUsd: 0.5,
    requestMs: 1,
  },
});
const started = (callId: string): PistisEvent => ({
  type: "ToolStarted",
  data: { turnId, callId, tool: "bash", epoch: 1, sandboxId },
});
const done = (callId: string): PistisEvent => ({
  type: "ToolDone",
  data: { turnId, callId, outcome: { status: "exited", exitCode: 1 }, text: "y".repeat(5_000), durationMs: 1 },
});
const posted = (messageId: string, text = "Go"): GatewayEvent => ({
  type: "MessagePosted",
  data: { messageId, text, delivery: "steer" },
});
const sandbox = { sandboxId, generation: 1 };
const finding = { target: "a host", expected: "closed", outcome: "answered", ok: false } as const;
const compacted = (compaction: Extract<PistisEvent, { type: "HistoryCompacted" }>["data"]["compaction"]) =>
  ({ type: "HistoryCompacted", data: { turnId, compaction, tokensBefore: 2, tokensAfter: 1 } }) as const;

/** Every event that the fold heeds, in an order that could happen. */
const life: PistisEvent[] = [
  {
    type: "SessionCreated",
    data: { title: "", model: "m", provider: "local", repository: { url: "/srv/app", ref: "main" } },
  },
  posted("msg_1"),
  posted("msg_2"),
  { type: "MessageWithdrawn", data: { messageId: "msg_2" } },
  { type: "TurnStarted", data: { turnId, epoch: 1, brain: "b", messageIds: ["msg_1"] } },
  { type: "SandboxNeeded", data: { turnId, reason: "absent" } },
  { type: "SandboxFailed", data: { ...sandbox, failure } },
  { type: "SandboxJoined", data: { ...sandbox, bootId: "boot-1", report: reportPlace(1) } },
  { type: "EgressProbed", data: { ...sandbox, passed: false, findings: [finding], durationMs: 1 } },
  { type: "SandboxNeeded", data: { turnId, reason: "unprobed" } },
  { type: "EgressProbed", data: { ...sandbox, passed: true, findings: [{ ...finding, ok: true }], durationMs: 1 } },
  { type: "RepositoryCopyFailed", data: { ...sandbox, failure } },
  {
    type: "RepositoryCopied",
    data: { ...sandbox, commit: null, branch: null, bundleBytes: 0, shallow: false, durationMs: 1 },
  },
  reply("rpl_1", "cal_1", "cal_2", "cal_3"),
  started("cal_1"),
  done("cal_1"),
  { type: "ToolRefused", data: { turnId, callId: "cal_2", failure, text: "No" } },
  started("cal_3"),
  { type: "SandboxNeeded", data: { turnId, reason: "unreachable" } },
  { type: "TurnTakenOver", data: { turnId, epoch: 2, brain: "c" } },
  { type: "ToolOutcomeUnknown", data: { turnId, callId: "cal_3", reason: "stop_unconfirmed", text: "Who knows" } },
  posted("msg_3"),
  { type: "MessagesDelivered", data: { turnId, messageIds: ["msg_3"] } },
  reply("rpl_2", "cal_4"),
  { type: "ToolNotRun", data: { turnId, callId: "cal_4", reason: "never_seen", text: "No" } },
  compacted({ kind: "results-shortened", uptoReplyId: "rpl_1", charactersMax: 1_000 }),
  reply("rpl_3"),
  compacted({ kind: "summarized", uptoReplyId: "rpl_1", summary: "Much happened", usage, costUsd: null }),
  compacted({ kind: "cut", charactersMax: 100 }),
  { type: "InterruptRequested", data: { turnId } },
  posted("msg_4"),
  { type: "TurnEnded", data: { turnId, reason: "limit", failure } },
  { type: "TurnStarted", data: { turnId: "trn_2", epoch: 3, brain: "b", messageIds: ["msg_4"] } },
  { type: "TurnEnded", data: { turnId: "trn_2", reason: "completed" } },
  { type: "SandboxStopped", data: { ...sandbox, reason: "crash" } },
  { type: "SandboxJoined", data: { ...sandbox, bootId: "boot-2", report: reportPlace(2) } },
  { type: "SessionEndRequested", data: {} },
  { type: "SessionEnded", data: {} },
];

const textOf = (state: Session) => JSON.stringify(brainFold.write({ state, lastMessageId: null }));
const states = life.map((_, index) => life.slice(0, index + 1).reduce<Session>(evolve, initialState));

describe("a kept fold", () => {
  it("gives back the same session, wherever it stands", () => {
    for (const state of [initialState, ...states]) {
      const kept = textOf(state);
      const read = brainFold.read.parse(JSON.parse(kept));
      expect(read.state.status).to.equal(state.status);
      expect(JSON.parse(textOf(read.state))).to.deep.equal(JSON.parse(kept));
    }
  });

  it("refuses what is none", () => {
    for (const kept of [null, {}, { state: {} }, { lastMessageId: null, state: { status: "idle" } }]) {
      expect(brainFold.read.safeParse(kept).success).to.equal(false);
    }
  });

  it("has another version when the fold makes something else of the same events", () => {
    const folded = sha256(states.map(textOf).join());
    const next = "The fold has changed: raise FOLD_VERSION, then take over the new digest";
    expect([FOLD_VERSION, folded], next).to.deep.equal([
      3,
      "5f2dad71e95356ef1f7cb6ca2f1f99cdf54d4426ae6ceac5bbced9596132a04e",
    ]);
  });

  it("lets only the tail of a long session be read", async () => {
    const { session, snapshots, ledger, reads, post } = await longSession();
    const first = new SessionRecord(ledger, session, snapshots);
    await first.catchUp();
    await first.keep(fail);
    await post();
    const second = new SessionRecord(ledger, session, snapshots);
    await second.catchUp();
    expect(reads).to.deep.equal([SNAPSHOT_EVERY_MESSAGES + 1, 1]);
    await first.catchUp();
    expect(JSON.parse(textOf(second.state))).to.deep.equal(JSON.parse(textOf(first.state)));
  });

  it("is passed over when its code version is another, or it cannot be had", async () => {
    const { session, snapshots, ledger, gateway, reads } = await longSession();
    const { version } = await gateway.read(session);
    const key = { session, fold: "brain", foldVersion: FOLD_VERSION };
    await snapshots.save({ ...key, foldVersion: FOLD_VERSION - 1 }, { version, state: { old: true } });
    const failing = { ...snapshots, load: () => Promise.reject(new Error("No database")) };
    for (const kept of [snapshots, failing]) {
      reads.length = 0;
      const record = new SessionRecord(ledger, session, kept);
      await record.catchUp();
      expect(reads).to.deep.equal([SNAPSHOT_EVERY_MESSAGES + 1]);
      expect(record.state.status).to.equal("idle");
    }
  });

  /** `reads`: how many messages each read of the brain's ledger gave. */
  async function longSession() {
    const session = newId("session");
    const reads: number[] = [];
    const gateway = memoryLedger().open("gateway");
    const first = await gateway.append(session, NEW_SESSION, life.slice(0, 1), causeOf(session));
    await appendMany(gateway, session, SNAPSHOT_EVERY_MESSAGES, versionOf(first));
    const ledger: Ledger = {
      append: (...args) => gateway.append(...args),
      read: async (of, after) => {
        const found = await gateway.read(of, after);
        reads.push(found.messages.length);
        return found;
      },
    };
    const post = async () => appendMany(gateway, session, 1, (await gateway.read(session)).version);
    return { session, ledger, gateway, reads, post, snapshots: memorySnapshots() };
  }

  function fail(error: unknown): never {
    throw error;
  }
});
