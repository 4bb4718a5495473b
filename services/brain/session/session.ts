// A session as the brain sees it, folded from its ledger. One fold serves the whole loop: what the model is
// given, which messages wait, which calls are open, whether the sandbox is there, whether someone pressed Stop.
//
// After Stop the messages that were waiting go on waiting until the user acts. What counts as acting is one
// thing: posting a message after Stop was pressed, even while the turn is still ending. Then all that waits is
// delivered, in order. Withdrawing a message takes just that one away.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";
import { compacted } from "./compaction.ts";
import { bounded, type History, type Json, withEntry } from "./history.ts";
import {
  askAgain,
  copyAgain,
  evolveNetworkProbe,
  evolveRepositoryCopy,
  evolveSandbox,
  type LastSeen,
  type NetworkProbe,
  probeAgain,
  type RepositoryCopy,
  type Sandbox,
  sandboxNotice,
} from "./sandbox.ts";
import type { CallEndEvent, SandboxEvent } from "./session-events.ts";

export type WaitingMessage = Readonly<{ messageId: string; text: string; delivery: "steer" | "queue" }>;

type Asked = Readonly<{ callId: string; modelCallId: string; tool: string; input: Json }>;
export type Call =
  | (Asked & Readonly<{ status: "asked" }>)
  /** `generation`: of the sandbox that was up at its start, which has the same id in every generation. */
  | (Asked & Readonly<{ status: "started"; sandboxId: string | undefined; generation: number | undefined }>)
  | (Asked & Readonly<{ status: "closed" }>);

export type Turn = Readonly<{
  turnId: string;
  epoch: number;
  brain: string;
  /** The first message of the turn; everything the turn writes is correlated with it. */
  messageId: string;
  steps: number;
  costUsd: number;
  /** Of the newest reply. Those of earlier ones are all closed. */
  calls: readonly Call[];
  /** How often the history was compacted. */
  compactions: number;
  interruptRequested: boolean;
}>;

/** What the provider counted for a request and its reply: how large the history is up to and with that reply. */
export type Measured = Readonly<{ replyId: string; tokens: number }>;

type Facts = Readonly<{
  model: string;
  repository: RepositorySource | undefined;
  epoch: number;
  history: History;
  /** Of the newest reply whose tokens were counted; absent since the history was compacted. */
  measured: Measured | undefined;
  waiting: readonly WaitingMessage[];
  /** Stop was pressed and the user has not written since. */
  held: boolean;
  sandbox: Sandbox;
  networkProbe: NetworkProbe;
  lastSeen: LastSeen;
  repositoryCopy: RepositoryCopy;
  /** Calls in the sandbox's present boot that were told to stop and may still run (C68). */
  unstopped: readonly string[];
  endRequested: boolean;
}>;

export type Idle = Facts & Readonly<{ status: "idle" }>;
export type Working = Facts & Readonly<{ status: "working"; turn: Turn }>;
export type Session = Readonly<{ status: "absent" }> | Idle | Working | Readonly<{ status: "ended" }>;

/** Reason of a ToolOutcomeUnknown: Stop was pressed and the sandbox did not confirm that the call ended. */
export const STOP_UNCONFIRMED = "stop_unconfirmed";

export const initialState: Session = { status: "absent" };

export function evolve(session: Session, event: PistisEvent): Session {
  if (event.type === "SessionCreated") return session.status === "absent" ? created(event.data) : session;
  if (session.status === "absent" || session.status === "ended") return session;
  if (isAboutSandbox(event)) return withSandbox(session, event);
  switch (event.type) {
    case "MessagePosted":
      return { ...session, waiting: [...session.waiting, event.data], held: false };
    case "MessageWithdrawn":
      return { ...session, waiting: session.waiting.filter(({ messageId }) => messageId !== event.data.messageId) };
    case "SessionEndRequested":
      return { ...session, endRequested: true };
    case "EgressProbed":
      return { ...session, networkProbe: evolveNetworkProbe(event.data) };
    case "RepositoryCopied":
    case "RepositoryCopyFailed":
      return { ...session, repositoryCopy: evolveRepositoryCopy(event) };
    case "SessionEnded":
      return { status: "ended" };
    case "TurnStarted":
      return turnStarted(session, event.data);
    default:
      return session.status === "working" ? evolveTurn(session, event) : session;
  }
}

function evolveTurn(session: Working, event: PistisEvent): Session {
  const { turn } = session;
  switch (event.type) {
    case "TurnTakenOver":
      return {
        ...session,
        epoch: event.data.epoch,
        turn: { ...turn, epoch: event.data.epoch, brain: event.data.brain },
      };
    case "InterruptRequested":
      if (event.data.turnId !== turn.turnId) return session;
      return { ...session, held: true, turn: { ...turn, interruptRequested: true } };
    case "MessagesDelivered":
      return delivered(session, event.data.messageIds);
    case "ModelReplied":
      return replied(session, event.data);
    case "HistoryCompacted":
      return withCompacted(session, event.data);
    case "ToolStarted":
      return started(session, event.data);
    case "ToolDone":
    case "ToolOutcomeUnknown":
    case "ToolNotRun":
    case "ToolRefused":
      return closed(session, event);
    case "TurnEnded":
      return turnEnded(session, event.data);
    default:
      return session;
  }
}

function created(data: EventOf<"SessionCreated">["data"]): Session {
  return {
    status: "idle",
    model: data.model,
    repository: data.repository,
    epoch: 0,
    history: undefined,
    measured: undefined,
    waiting: [],
    held: false,
    sandbox: { status: "absent" },
    networkProbe: { status: "awaited" },
    lastSeen: undefined,
    repositoryCopy: { status: "awaited" },
    unstopped: [],
    endRequested: false,
  };
}

function isAboutSandbox(event: PistisEvent): event is SandboxEvent {
  return event.type.startsWith("Sandbox");
}

function withSandbox<Open extends Idle | Working>(session: Open, event: SandboxEvent): Open {
  const sandbox = evolveSandbox(session.sandbox, event);
  const isProbedAnew = event.type === "SandboxJoined" || event.type === "SandboxNeeded";
  const networkProbe = isProbedAnew ? probeAgain(session.networkProbe) : session.networkProbe;
  if (event.type !== "SandboxJoined") return { ...session, sandbox, networkProbe };
  const joined = {
    ...session,
    sandbox,
    networkProbe,
    unstopped: [],
    repositoryCopy: copyAgain(session.repositoryCopy),
  };
  const text = sandboxNotice(session.lastSeen, event.data);
  if (text === undefined) return joined;
  return { ...joined, lastSeen: undefined, history: withEntry(session.history, { kind: "notice", text }) };
}

function turnStarted(session: Idle | Working, data: EventOf<"TurnStarted">["data"]): Session {
  const { turnId, epoch, brain, messageIds } = data;
  const turn: Turn = {
    turnId,
    epoch,
    brain,
    messageId: messageIds[0] ?? turnId,
    steps: 0,
    costUsd: 0,
    calls: [],
    compactions: 0,
    interruptRequested: false,
  };
  const repositoryCopy = copyAgain(session.repositoryCopy);
  const sandbox = askAgain(session.sandbox);
  return { ...delivered(session, messageIds), sandbox, repositoryCopy, status: "working", epoch, turn };
}

function delivered<Open extends Idle | Working>(session: Open, messageIds: readonly string[]): Open {
  const given = session.waiting.filter(({ messageId }) => messageIds.includes(messageId));
  const history = given.reduce<History>(
    (before, { messageId, text }) => withEntry(before, { kind: "message", messageId, text }),
    session.history,
  );
  return { ...session, history, waiting: session.waiting.filter((message) => !given.includes(message)) };
}

function replied(session: Working, data: EventOf<"ModelReplied">["data"]): Session {
  const calls = data.content.flatMap((part): Call[] => {
    if (part.type !== "tool-call") return [];
    const { callId, modelCallId, tool, input } = part;
    return [{ status: "asked", callId, modelCallId, tool, input }];
  });
  const turn = {
    ...session.turn,
    steps: session.turn.steps + 1,
    costUsd: session.turn.costUsd + (data.costUsd ?? 0),
    calls,
  };
  const { replyId, model, content, usage } = data;
  const history = withEntry(session.history, { kind: "reply", replyId, model, content });
  const tokens = usage.inputTokens + usage.outputTokens;
  return { ...session, turn, history, measured: usage.inputTokens > 0 ? { replyId, tokens } : session.measured };
}

function withCompacted(session: Working, { compaction }: EventOf<"HistoryCompacted">["data"]): Session {
  const { compactions, costUsd } = session.turn;
  const cost = compaction.kind === "summarized" ? (compaction.costUsd ?? 0) : 0;
  const turn = { ...session.turn, compactions: compactions + 1, costUsd: costUsd + cost };
  return { ...session, turn, history: compacted(session.history, compaction), measured: undefined };
}

function started(session: Working, { callId, sandboxId }: EventOf<"ToolStarted">["data"]): Session {
  const { sandbox } = session;
  const generation = sandbox.status === "up" ? sandbox.generation : undefined;
  const calls = session.turn.calls.map((call): Call => {
    if (call.callId !== callId || call.status !== "asked") return call;
    return { ...call, status: "started", sandboxId, generation };
  });
  const turn = { ...session.turn, calls };
  if (sandbox.status !== "up") return { ...session, turn };
  const lastSeen = { generation: sandbox.generation, bootId: sandbox.bootId };
  return { ...session, turn, sandbox: { ...sandbox, unreachable: false }, lastSeen };
}

function closed(session: Working, event: CallEndEvent): Session {
  const { callId, text } = event.data;
  const calls = session.turn.calls.map((call): Call => (call.callId === callId ? { ...call, status: "closed" } : call));
  const history = withEntry(session.history, { kind: "result", callId, text, failed: hasFailed(event) });
  const isUnstopped = event.type === "ToolOutcomeUnknown" && event.data.reason === STOP_UNCONFIRMED;
  const unstopped = isUnstopped ? [...session.unstopped, callId] : session.unstopped;
  return { ...session, history, unstopped, turn: { ...session.turn, calls } };
}

function hasFailed(event: CallEndEvent): boolean {
  if (event.type !== "ToolDone") return true;
  const { outcome } = event.data;
  if (outcome.status === "exited") return outcome.exitCode !== 0;
  return outcome.status !== "ok" && outcome.status !== "background";
}

function turnEnded(session: Working, { reason, failure }: EventOf<"TurnEnded">["data"]): Session {
  const { turn: _over, ...facts } = session;
  const history = bounded(withEntry(session.history, { kind: "ended", reason, text: failure?.message }));
  return { ...facts, status: "idle", history };
}
