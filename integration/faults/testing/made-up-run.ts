// Small made-up runs for the tests of the checks: what a ledger and the disks would hold of them.
import { type EventOf, type PistisEvent, writerOf } from "#schemas/ledger/event.ts";
import { violationsIn } from "../invariants.ts";
import {
  type LastTurn,
  type Mark,
  markCommand,
  type Observed,
  type ObservedMessage,
  type WrittenFile,
} from "../observed.ts";

export const SESSION = "ses_1";
export const TURN = { turnId: "trn_1" };
export const USAGE = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };
export const DAMAGE = { reason: "taken_over", text: "Outcome unknown: it may have partly or fully run." };

export type Scene = {
  marks?: Mark[];
  files?: WrittenFile[];
  accepted?: string[];
  withoutDisk?: boolean;
  disksLost?: number;
  lastTurns?: LastTurn[];
};

/** Each list of events is one message of the writer that its first event belongs to, stored a second apart. */
export function observed(lists: readonly PistisEvent[][], scene: Scene = {}): Observed {
  const messages = lists.map(
    (events, index): ObservedMessage => ({
      id: `evt_${index}`,
      session: SESSION,
      sequence: index + 1,
      writer: events[0] === undefined ? "brain" : writerOf(events[0].type),
      causationId: index === 0 ? null : `evt_${index - 1}`,
      storedAtMs: index * 1_000,
      events,
    }),
  );
  const accepted = (scene.accepted ?? []).map((messageId) => ({ session: SESSION, messageId }));
  const withoutDisk = new Set(scene.withoutDisk ? [SESSION] : []);
  const { marks = [], files = [], lastTurns = [] } = scene;
  const disksLost = Array.from({ length: scene.disksLost ?? 0 }, () => SESSION);
  return { messages, marks, files, withoutDisk, disksLost, accepted, lastTurns };
}

export const posted: PistisEvent = {
  type: "MessagePosted",
  data: { messageId: "msg_1", text: "go", delivery: "steer" },
};
export const begun = (epoch = 1): PistisEvent => ({
  type: "TurnStarted",
  data: { ...TURN, epoch, brain: "brain-1", messageIds: ["msg_1"] },
});
export const takenOver = (epoch: number): PistisEvent => ({
  type: "TurnTakenOver",
  data: { ...TURN, epoch, brain: "brain-2" },
});
export const replied = (...calls: { callId: string; mark: string; tool?: string }[]): PistisEvent => ({
  type: "ModelReplied",
  data: {
    ...{
      ...TURN,
      replyId: "rpl_1",
      model: "script",
      finishReason: "tool-calls",
      usage: USAGE,
      costUsd: 0,
      requestMs: 0,
    },
    content: calls.map(({ callId, mark, tool = "bash" }) => ({
      ...{ type: "tool-call", callId, modelCallId: callId, tool },
      input: tool === "write" ? { path: `mark-${mark}`, content: "x" } : { command: markCommand(mark, 0) },
    })),
  },
});
export const started = (callId: string, epoch = 1): PistisEvent => ({
  type: "ToolStarted",
  data: { ...TURN, callId, tool: "bash", epoch },
});
export const done = (callId: string, text: string): PistisEvent => ({
  type: "ToolDone",
  data: { ...TURN, callId, outcome: { status: "exited", exitCode: 0 }, text: `${text}[Exit code 0.]`, durationMs: 1 },
});
export const doneAs = (callId: string, outcome: EventOf<"ToolDone">["data"]["outcome"]): PistisEvent => ({
  type: "ToolDone",
  data: { ...TURN, callId, outcome, text: "", durationMs: 1 },
});
export const written = (callId: string): PistisEvent => ({
  type: "ToolDone",
  data: { ...TURN, callId, outcome: { status: "ok" }, text: "Created", durationMs: 1 },
});
export const notRun = (callId: string): PistisEvent => ({
  type: "ToolNotRun",
  data: { ...TURN, callId, reason: "never_seen", text: "This call did not run and never will." },
});
export const unknown = (callId: string): PistisEvent => ({
  type: "ToolOutcomeUnknown",
  data: { ...TURN, callId, ...DAMAGE },
});
export const interrupted: PistisEvent = { type: "InterruptRequested", data: TURN };
export const endRequested: PistisEvent = { type: "SessionEndRequested", data: {} };
export const ended: PistisEvent = { type: "TurnEnded", data: { ...TURN, reason: "completed" } };
export const marks = (id: string, fromMs: number): Mark[] => [
  { session: SESSION, id, kind: "start", atMs: fromMs },
  { session: SESSION, id, kind: "end", atMs: fromMs + 10 },
];
export const A = { callId: "cal_a", mark: "1-a" };
export const found = (lists: readonly PistisEvent[][], scene?: Scene) =>
  [...new Set(violationsIn(observed(lists, scene)).map(({ of }) => of))].sort();
