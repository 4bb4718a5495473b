// Events and commands of one session, for the tests of its decider.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { BrainEvent, ReplyPart } from "#schemas/ledger/events/brain.ts";
import { specify } from "#shared/testing/given.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import { type BrainCommand, type CallEnd, decide } from "../session/decide.ts";
import { evolve, initialState } from "../session/session.ts";

export const { given } = specify({ initialState, evolve, decide });

export const turnId = "trn_1";
export const created: PistisEvent = { type: "SessionCreated", data: { title: "", model: "script", provider: "local" } };
export const posted = (messageId: string, delivery: "steer" | "queue" = "steer"): PistisEvent => ({
  type: "MessagePosted",
  data: { messageId, text: `text of ${messageId}`, delivery },
});
export const startedTurn = (epoch: number, ...messageIds: string[]): BrainEvent => ({
  type: "TurnStarted",
  data: { turnId, epoch, brain: "brain-a", messageIds },
});
export const needed = (reason: "absent" | "stopped" | "unreachable" | "unprobed"): BrainEvent => ({
  type: "SandboxNeeded",
  data: { turnId, reason },
});
export const joined = (generation = 1, bootId = "boot-1"): PistisEvent => ({
  type: "SandboxJoined",
  data: { sandboxId: "sbx_1", generation, bootId, report: reportPlace(1) },
});
export const probed = (generation = 1, passed = true): PistisEvent => {
  const outcome = passed ? ("unreachable" as const) : ("answered" as const);
  const findings = [{ target: "a host", expected: "closed" as const, outcome, ok: passed }];
  return { type: "EgressProbed", data: { sandboxId: "sbx_1", generation, passed, findings, durationMs: 1 } };
};
export const stopped: PistisEvent = {
  type: "SandboxStopped",
  data: { sandboxId: "sbx_1", generation: 1, reason: "crash" },
};
export const interrupt: PistisEvent = { type: "InterruptRequested", data: { turnId } };
export const endRequested: PistisEvent = { type: "SessionEndRequested", data: {} };
export const ended = (reason: "completed" | "interrupted" | "failed"): BrainEvent => ({
  type: "TurnEnded",
  data: { turnId, reason },
});
export const call = (callId: string): ReplyPart => ({
  type: "tool-call",
  callId,
  modelCallId: callId,
  tool: "bash",
  input: {},
});
export const replyData = (...content: ReplyPart[]) => ({
  replyId: "rpl_1",
  model: "script",
  content,
  finishReason: "stop" as const,
  usage: { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0 },
  costUsd: 0,
  requestMs: 1,
});
export const replied = (...content: ReplyPart[]): BrainEvent => ({
  type: "ModelReplied",
  data: { turnId, ...replyData(...content) },
});
export const toolStarted = (callId: string, epoch = 1): BrainEvent => ({
  type: "ToolStarted",
  data: { turnId, callId, tool: "bash", epoch, sandboxId: "sbx_1" },
});
export const doneData = (callId: string) => ({
  callId,
  outcome: { status: "exited", exitCode: 0 } as const,
  text: "",
  durationMs: 1,
});
export const toolDone = (callId: string): BrainEvent => ({ type: "ToolDone", data: { turnId, ...doneData(callId) } });
export const takenOver: BrainEvent = { type: "TurnTakenOver", data: { turnId, epoch: 2, brain: "brain-b" } };

export const start: BrainCommand = { type: "StartTurn", turnId, brain: "brain-a" };
export const record = (...content: ReplyPart[]) => ({
  type: "RecordReply" as const,
  epoch: 1,
  reply: replyData(...content),
  refused: [],
  ending: { reason: "completed" as const },
});
export const startCalls = (...callIds: string[]): BrainCommand => ({
  type: "StartCalls",
  epoch: 1,
  callIds,
  sandboxId: "sbx_1",
});
export const end = (callId: string): CallEnd => ({ type: "ToolDone", data: doneData(callId) });
export const finish = (callId: string, ...next: string[]): BrainCommand => ({
  type: "FinishCall",
  epoch: 1,
  end: end(callId),
  next: next.length === 0 ? undefined : { callIds: next, sandboxId: "sbx_1" },
});
export const endTurn: BrainCommand = { type: "EndTurn", epoch: 1, ending: { reason: "interrupted" } };
export const open = [created, posted("msg_1"), startedTurn(1, "msg_1"), needed("absent"), joined(), probed()];
