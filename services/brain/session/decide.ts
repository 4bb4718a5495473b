// What the brain may write, given what the session is now. Every command of a running turn names the epoch it
// works under: once another brain has raised it, nothing more can be decided (I4).
import type { BrainEvent } from "#schemas/ledger/events/brain.ts";
import { Fatal, Refusal } from "#shared/errors/errors.ts";
import { isStopping, isUnprobed, mayStartTurn, openCalls, steering } from "./questions.ts";
import type { SandboxFailure } from "./sandbox.ts";
import { evolve, type Idle, type Session, type Working } from "./session.ts";

type DataOf<Type extends BrainEvent["type"]> = Extract<BrainEvent, { type: Type }>["data"];
type WithoutTurn<Type extends BrainEvent["type"]> = Omit<DataOf<Type>, "turnId">;

export type TurnEnding = Readonly<{
  reason: DataOf<"TurnEnded">["reason"];
  failure?: SandboxFailure | undefined;
}>;

/** How one started call ended. */
export type CallEnd =
  | Readonly<{ type: "ToolDone"; data: WithoutTurn<"ToolDone"> }>
  | Readonly<{ type: "ToolOutcomeUnknown"; data: WithoutTurn<"ToolOutcomeUnknown"> }>
  | Readonly<{ type: "ToolNotRun"; data: WithoutTurn<"ToolNotRun"> }>;

export type CallStart = Readonly<{ callIds: readonly string[]; sandboxId: string }>;

export type BrainCommand =
  | Readonly<{ type: "StartTurn"; turnId: string; brain: string }>
  | Readonly<{ type: "TakeOverTurn"; brain: string }>
  | Readonly<{ type: "DeliverMessages"; epoch: number }>
  | Readonly<{
      type: "RecordReply";
      epoch: number;
      reply: WithoutTurn<"ModelReplied">;
      refused: readonly WithoutTurn<"ToolRefused">[];
      /** Calls that leave at once; absent while the sandbox is not ready. */
      start?: CallStart | undefined;
      /** How the turn ends when nothing is left to do after this reply. */
      ending: TurnEnding;
    }>
  | Readonly<{ type: "StartCalls"; epoch: number } & CallStart>
  | Readonly<{ type: "FinishCall"; epoch: number; end: CallEnd; next?: CallStart | undefined }>
  | Readonly<{ type: "CompactHistory"; epoch: number } & WithoutTurn<"HistoryCompacted">>
  | Readonly<{ type: "AskForSandbox"; epoch: number; reason: DataOf<"SandboxNeeded">["reason"] }>
  | Readonly<{ type: "EndTurn"; epoch: number; ending: TurnEnding }>
  | Readonly<{ type: "EndSession" }>;

type Of<Type extends BrainCommand["type"]> = Extract<BrainCommand, { type: Type }>;

export function decide(session: Session, command: BrainCommand): BrainEvent[] {
  switch (command.type) {
    case "StartTurn":
      return startTurn(session, command);
    case "TakeOverTurn":
      return takeOver(session, command);
    case "DeliverMessages":
      return deliver(owned(session, command.epoch));
    case "RecordReply":
      return recordReply(owned(session, command.epoch), command);
    case "StartCalls":
      return startCalls(owned(session, command.epoch), command);
    case "FinishCall":
      return finishCall(owned(session, command.epoch), command);
    case "CompactHistory":
      return compactHistory(owned(session, command.epoch), command);
    case "AskForSandbox":
      return askForSandbox(owned(session, command.epoch), command);
    case "EndTurn":
      return endTurn(owned(session, command.epoch), command.ending);
    case "EndSession":
      return endSession(session);
  }
}

function startTurn(session: Session, { turnId, brain }: Of<"StartTurn">): BrainEvent[] {
  if (session.status !== "idle" || !mayStartTurn(session)) return [];
  const messageIds = session.waiting.map(({ messageId }) => messageId);
  const started: BrainEvent = {
    type: "TurnStarted",
    data: { turnId, epoch: session.epoch + 1, brain, messageIds },
  };
  const isReady = session.sandbox.status === "up" && !isUnprobed(session);
  return isReady ? [started] : [started, sandboxNeeded(session, turnId)];
}

function sandboxNeeded({ sandbox }: Idle, turnId: string): BrainEvent {
  const reason = sandbox.status === "up" ? "unprobed" : sandbox.status === "stopped" ? "stopped" : "absent";
  return { type: "SandboxNeeded", data: { turnId, reason } };
}

function takeOver(session: Session, { brain }: Of<"TakeOverTurn">): BrainEvent[] {
  if (session.status !== "working") return [];
  return [{ type: "TurnTakenOver", data: { turnId: session.turn.turnId, epoch: session.epoch + 1, brain } }];
}

function deliver(session: Working): BrainEvent[] {
  const messageIds = steering(session).map(({ messageId }) => messageId);
  if (messageIds.length === 0 || isStopping(session) || openCalls(session).length > 0) return [];
  return [{ type: "MessagesDelivered", data: { turnId: session.turn.turnId, messageIds } }];
}

function recordReply(session: Working, { reply, refused, start, ending }: Of<"RecordReply">): BrainEvent[] {
  const { turnId } = session.turn;
  if (openCalls(session).length > 0) throw new Refusal("calls_open", "A reply cannot follow while calls are open");
  const recorded: BrainEvent[] = [
    { type: "ModelReplied", data: { turnId, ...reply } },
    ...refused.map((data): BrainEvent => ({ type: "ToolRefused", data: { turnId, ...data } })),
  ];
  if (isStopping(session)) return recorded;
  if (start !== undefined) return [...recorded, ...startCalls(after(session, recorded), start)];
  const isOver = !reply.content.some(({ type }) => type === "tool-call");
  if (!isOver || (ending.reason === "completed" && steering(session).length > 0)) return recorded;
  return [...recorded, turnEnded(turnId, ending)];
}

function startCalls(session: Working, start: CallStart): BrainEvent[] {
  if (isStopping(session) || isUnprobed(session)) return [];
  const { turnId, epoch, calls } = session.turn;
  const starting = calls.filter(({ status, callId }) => status === "asked" && start.callIds.includes(callId));
  return starting.map(({ callId, tool }) => ({
    type: "ToolStarted",
    data: { turnId, callId, tool, epoch, sandboxId: start.sandboxId },
  }));
}

function finishCall(session: Working, { end, next }: Of<"FinishCall">): BrainEvent[] {
  const { turnId } = session.turn;
  const call = session.turn.calls.find(({ callId }) => callId === end.data.callId);
  if (call === undefined || call.status === "closed") return [];
  if (call.status === "asked") throw new Refusal("call_not_started", `Call ${call.callId} was not started`);
  const ended = finished(turnId, end);
  return next === undefined ? [ended] : [ended, ...startCalls(after(session, [ended]), next)];
}

function finished(turnId: string, end: CallEnd): BrainEvent {
  switch (end.type) {
    case "ToolDone":
      return { type: end.type, data: { turnId, ...end.data } };
    case "ToolOutcomeUnknown":
      return { type: end.type, data: { turnId, ...end.data } };
    case "ToolNotRun":
      return { type: end.type, data: { turnId, ...end.data } };
  }
}

function compactHistory(session: Working, command: Of<"CompactHistory">): BrainEvent[] {
  if (isStopping(session) || openCalls(session).length > 0) return [];
  const { compaction, tokensBefore, tokensAfter } = command;
  return [{ type: "HistoryCompacted", data: { turnId: session.turn.turnId, compaction, tokensBefore, tokensAfter } }];
}

function askForSandbox(session: Working, { reason }: Of<"AskForSandbox">): BrainEvent[] {
  const { sandbox, turn } = session;
  if (sandbox.status === "asked" || isStopping(session)) return [];
  if (sandbox.status === "up" && (sandbox.unreachable || reason !== "unreachable")) return [];
  return [{ type: "SandboxNeeded", data: { turnId: turn.turnId, reason } }];
}

function endTurn(session: Working, ending: TurnEnding): BrainEvent[] {
  const { turnId } = session.turn;
  const events = [...openCalls(session).map((call) => closeAtEnd(turnId, call)), turnEnded(turnId, ending)];
  return session.endRequested ? [...events, { type: "SessionEnded", data: {} }] : events;
}

function closeAtEnd(turnId: string, { callId, status }: { callId: string; status: string }): BrainEvent {
  if (status === "asked") {
    const text = "This call did not run: the turn ended before it started.";
    return { type: "ToolNotRun", data: { turnId, callId, reason: "turn_ended", text } };
  }
  const text = "Outcome unknown: the turn ended before the result arrived. The call may have partly or fully run.";
  return { type: "ToolOutcomeUnknown", data: { turnId, callId, reason: "turn_ended", text } };
}

function turnEnded(turnId: string, { reason, failure }: TurnEnding): BrainEvent {
  if (failure === undefined) return { type: "TurnEnded", data: { turnId, reason } };
  const { code, message, next } = failure;
  return {
    type: "TurnEnded",
    data: { turnId, reason, failure: { code, message, ...(next === undefined ? {} : { next }) } },
  };
}

function endSession(session: Session): BrainEvent[] {
  if (session.status !== "idle" || !session.endRequested) return [];
  return [{ type: "SessionEnded", data: {} }];
}

/** The session once these, which neither start nor end a turn, have happened. */
function after(session: Working, events: readonly BrainEvent[]): Working {
  const then = events.reduce<Session>(evolve, session);
  if (then.status !== "working") throw new Fatal("turn_vanished", "A call's events ended the turn");
  return then;
}

function owned(session: Session, epoch: number): Working {
  if (session.status !== "working" || session.turn.epoch !== epoch) {
    throw new Refusal("deposed", `This brain no longer owns the turn (epoch ${epoch})`);
  }
  return session;
}
