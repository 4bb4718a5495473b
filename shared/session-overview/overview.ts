// What a list of sessions shows of each, folded from its ledger. The projector keeps it as a row, the gateway
// folds what the row does not have yet, so both must be this one function.
//
// Texts here come from people, models and sandboxes and end up in PostgreSQL, which takes neither NUL nor half
// a character: both are replaced as they come in, so that the row and the fold are equal.
import { QUEUED_EXCERPT_CHARACTERS, type SessionDetail } from "#schemas/api/session.ts";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";

type Stamp = Pick<LedgerMessage, "session" | "at" | "sequence">;
type Evolve<Type extends PistisEvent["type"]> = (
  session: SessionDetail,
  data: EventOf<Type>["data"],
  at: string,
) => Partial<SessionDetail>;

/** The overview after one more message; undefined while the session was not created. Pure. */
export function evolveOverview(
  session: SessionDetail | undefined,
  message: Stamp & Pick<LedgerMessage, "events">,
): SessionDetail | undefined {
  const after = message.events.reduce<SessionDetail | undefined>(
    (state, event) => evolveEvent(state, event, message),
    session,
  );
  return after === undefined ? undefined : { ...after, updatedAt: message.at, lastSequence: message.sequence };
}

function evolveEvent(session: SessionDetail | undefined, event: PistisEvent, stamp: Stamp): SessionDetail | undefined {
  if (event.type === "SessionCreated") return session ?? created(event.data, stamp);
  return session === undefined ? undefined : { ...session, ...changeBy(session, event, stamp.at) };
}

function created(data: EventOf<"SessionCreated">["data"], { session, at, sequence }: Stamp): SessionDetail {
  return {
    id: session,
    title: storable(data.title),
    model: storable(data.model),
    provider: storable(data.provider),
    repository: repositoryOf(data.repository),
    status: "idle",
    openTurnId: null,
    lastTurn: null,
    queuedMessages: 0,
    queue: [],
    queueHeld: false,
    sandbox: { state: "absent", sandboxId: null, generation: 0 },
    usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 },
    costUsd: 0,
    costComplete: true,
    counts: { turns: 0, messages: 0, replies: 0, toolCalls: 0 },
    createdAt: at,
    updatedAt: at,
    lastSequence: sequence,
  };
}

function changeBy(session: SessionDetail, event: PistisEvent, at: string): Partial<SessionDetail> {
  switch (event.type) {
    case "MessagePosted":
      return posted(session, event.data, at);
    case "MessageWithdrawn":
      return queueWithout(session, [event.data.messageId]);
    case "InterruptRequested":
      return event.data.turnId === session.openTurnId ? { queueHeld: true } : {};
    case "TurnStarted":
      return turnStarted(session, event.data, at);
    case "TurnTakenOver":
      return { openTurnId: event.data.turnId };
    case "MessagesDelivered":
      return queueWithout(session, event.data.messageIds);
    case "ModelReplied":
      return replied(session, event.data, at);
    case "HistoryCompacted":
      return event.data.compaction.kind === "summarized" ? spent(session, event.data.compaction) : {};
    case "ToolStarted":
      return { counts: { ...session.counts, toolCalls: session.counts.toolCalls + 1 } };
    case "TurnEnded":
      return turnEnded(session, event.data, at);
    case "SessionEndRequested":
      return session.status === "ended" ? {} : { status: "ending" };
    case "SessionEnded":
      return { status: "ended", openTurnId: null };
    default:
      return sandboxChange(event);
  }
}

const posted: Evolve<"MessagePosted"> = (session, { messageId, text, delivery }, at) => {
  const excerpt = storable(text.slice(0, QUEUED_EXCERPT_CHARACTERS));
  const queue = [...session.queue, { messageId, excerpt, delivery, at }];
  return {
    queue,
    queuedMessages: queue.length,
    queueHeld: false,
    counts: { ...session.counts, messages: session.counts.messages + 1 },
  };
};

const turnStarted: Evolve<"TurnStarted"> = (session, { turnId, messageIds }) => ({
  ...queueWithout(session, messageIds),
  status: session.status === "idle" ? "running" : session.status,
  openTurnId: turnId,
  counts: { ...session.counts, turns: session.counts.turns + 1 },
});

const replied: Evolve<"ModelReplied"> = (session, reply) => ({
  ...spent(session, reply),
  counts: { ...session.counts, replies: session.counts.replies + 1 },
});

const spent = (
  session: SessionDetail,
  { usage, costUsd }: Pick<EventOf<"ModelReplied">["data"], "usage" | "costUsd">,
): Partial<SessionDetail> => ({
  usage: {
    inputTokens: session.usage.inputTokens + usage.inputTokens,
    outputTokens: session.usage.outputTokens + usage.outputTokens,
    cachedInputTokens: session.usage.cachedInputTokens + usage.cachedInputTokens,
  },
  costUsd: session.costUsd + (costUsd ?? 0),
  costComplete: session.costComplete && costUsd !== null,
});

const turnEnded: Evolve<"TurnEnded"> = (session, { turnId, reason, failure }) => ({
  status: session.status === "running" ? "idle" : session.status,
  openTurnId: session.openTurnId === turnId ? null : session.openTurnId,
  lastTurn: { turnId, reason, ...(failure === undefined ? {} : { failure: storableFailure(failure) }) },
});

function sandboxChange(event: PistisEvent): Partial<SessionDetail> {
  switch (event.type) {
    case "SandboxCreateRequested":
    case "SandboxRestartRequested":
    case "SandboxCreated":
    case "SandboxRestarted":
      return sandboxNow("starting", event.data);
    case "SandboxJoined":
      return sandboxNow("running", event.data);
    case "EgressProbed":
      return sandboxNow(event.data.passed ? "running" : "exposed", event.data);
    case "SandboxStopped":
      return sandboxNow("stopped", event.data);
    case "SandboxMissing":
      return sandboxNow("missing", event.data);
    case "SandboxFailed":
      return sandboxNow("failed", event.data);
    case "SandboxDestroyed":
      return sandboxNow("destroyed", event.data);
    default:
      return {};
  }
}

function sandboxNow(
  state: SessionDetail["sandbox"]["state"],
  { sandboxId, generation }: { sandboxId: string; generation: number },
): Partial<SessionDetail> {
  return { sandbox: { state, sandboxId, generation } };
}

function queueWithout(session: SessionDetail, messageIds: readonly string[]) {
  const queue = session.queue.filter(({ messageId }) => !messageIds.includes(messageId));
  return { queue, queuedMessages: queue.length };
}

function repositoryOf(source: EventOf<"SessionCreated">["data"]["repository"]): SessionDetail["repository"] {
  if (source === undefined) return null;
  return { url: storable(source.url), ...(source.ref === undefined ? {} : { ref: storable(source.ref) }) };
}

function storableFailure({ code, message, next }: { code: string; message: string; next?: string | undefined }) {
  const texts = { code: storable(code), message: storable(message) };
  return next === undefined ? texts : { ...texts, next: storable(next) };
}

function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}
