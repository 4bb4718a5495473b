// Watches a session until the turn that answers a message is over. The first Ctrl-C stops the turn, the second leaves.
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { interruptTurn, type Server, withdrawMessage } from "../client/api.ts";
import { followSession, type SessionStart } from "../client/stream.ts";
import type { Context } from "../context.ts";
import { durationText } from "../terminal/quantities.ts";
import { emptySummary, type Summary, summarize } from "./summary.ts";
import type { Transcript } from "./transcript.ts";

export type TurnResult =
  | { status: "ended"; summary: Summary }
  /** It was taken back before the model saw it. */
  | { status: "withdrawn" }
  /** The session was ended before the message's turn began. */
  | { status: "session-ended" }
  /** The person left; the session goes on without them. */
  | { status: "left" };

type Watched = Readonly<{ server: Server; session: string; messageId: string; start: SessionStart }>;

/** Prints the session from `start` on, and resolves when the turn that the message went into is over. */
export async function followTurn(context: Context, transcript: Transcript, watched: Watched): Promise<TurnResult> {
  const leaving = new AbortController();
  let stops = 0;
  const stopListening = context.onStop(() => {
    stops += 1;
    if (stops > 1) leaving.abort();
    else void stopTurn(transcript, watched);
  });
  try {
    return await untilTurnEnds(transcript, watched, leaving.signal);
  } finally {
    stopListening();
    leaving.abort();
  }
}

async function untilTurnEnds(transcript: Transcript, watched: Watched, signal: AbortSignal): Promise<TurnResult> {
  let turnId: string | undefined;
  let summary = emptySummary;
  for await (const item of followSession(watched.server, watched.session, watched.start, signal)) {
    if (item.kind === "live") transcript.live(item.message);
    if (item.kind === "reconnecting") transcript.note(`connection lost, again in ${durationText(item.afterMs)}`);
    if (item.kind !== "ledger") continue;
    transcript.ledger(item.message);
    turnId ??= turnOf(item.message, watched.messageId);
    if (turnId !== undefined) summary = summarize(summary, item.message);
    if (
      turnId !== undefined &&
      has(item.message, (event) => event.type === "TurnEnded" && event.data.turnId === turnId)
    ) {
      return { status: "ended", summary };
    }
    if (has(item.message, (event) => event.type === "MessageWithdrawn" && event.data.messageId === watched.messageId)) {
      return { status: "withdrawn" };
    }
    if (has(item.message, ({ type }) => type === "SessionEnded")) return { status: "session-ended" };
  }
  return { status: "left" };
}

function turnOf(message: LedgerMessageView, messageId: string): string | undefined {
  for (const { type, data } of message.events) {
    if ((type === "TurnStarted" || type === "MessagesDelivered") && data.messageIds.includes(messageId))
      return data.turnId;
  }
  return undefined;
}

function has(message: LedgerMessageView, test: (event: PistisEvent) => boolean): boolean {
  return message.events.some(test);
}

/** Interrupts the open turn; takes the message back when its turn has not begun. */
async function stopTurn(transcript: Transcript, { server, session, messageId }: Watched): Promise<void> {
  transcript.note("stopping the turn; Ctrl-C again leaves");
  try {
    const open = await unless("no_open_turn", interruptTurn(server, session));
    const taken = open || (await unless("already_delivered", withdrawMessage(server, session, messageId)));
    // Its turn began between the two requests.
    if (!taken) await interruptTurn(server, session);
  } catch (error) {
    transcript.note(`the turn could not be stopped: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** false when it was refused with this code. */
async function unless(code: string, request: Promise<object>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === code) return false;
    throw error;
  }
}
