// The API's session requests as commands: ids are given here, defaults filled in, and the answer put together.
import type {
  CreatedSession,
  EndedSession,
  Interrupted,
  PostedMessage,
  SessionDetail,
  WithdrawnMessage,
} from "#schemas/api/session.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";
import { Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { evolveOverview } from "#shared/session-overview/overview.ts";
import { type Choices, choose } from "../choices.ts";
import { checkRepositorySource } from "./repository-source.ts";
import { overviewOf, run, type Sessions } from "./sessions.ts";

const TITLE_CHARACTERS_MAX = 200;

export type CreateRequest = Readonly<{
  title?: string | undefined;
  model?: string | undefined;
  provider?: string | undefined;
  repository?: RepositorySource | undefined;
  message?: Readonly<{ text: string; messageId?: string | undefined }> | undefined;
}>;

export async function createSession(
  sessions: Sessions,
  choices: Choices,
  request: CreateRequest,
): Promise<CreatedSession> {
  const { repository } = request;
  if (repository !== undefined) checkRepositorySource(repository);
  const chosen = choose(choices, request);
  const session = newId("session");
  const message = request.message && {
    text: request.message.text,
    messageId: request.message.messageId ?? newId("message"),
  };
  const command = { type: "CreateSession", title: titleOf(request), ...chosen, repository, message } as const;
  const cause = { correlationId: message?.messageId ?? session, causationId: null };
  const { appended } = await run(sessions, session, command, cause);
  const messageId = message?.messageId ?? null;
  return { session: await freshOverview(sessions, session, appended), messageId };
}

/** Stored when this resolves. The same id with the same text again gets the answer that the first request got. */
export async function postMessage(
  sessions: Sessions,
  session: string,
  {
    text,
    delivery,
    messageId = newId("message"),
  }: { text: string; delivery: "steer" | "queue"; messageId?: string | undefined },
): Promise<PostedMessage> {
  const command = { type: "PostMessage", messageId, text, delivery } as const;
  const { appended } = await run(sessions, session, command, { correlationId: messageId, causationId: null });
  return { messageId, sequence: appended?.sequence ?? (await sequenceOfMessage(sessions, session, messageId)) };
}

export async function withdrawMessage(
  sessions: Sessions,
  session: string,
  messageId: string,
): Promise<WithdrawnMessage> {
  const cause = { correlationId: messageId, causationId: null };
  const { version } = await run(sessions, session, { type: "WithdrawMessage", messageId }, cause);
  return { messageId, withdrawn: true, sequence: version.sequence };
}

export async function interruptTurn(sessions: Sessions, session: string): Promise<Interrupted> {
  const cause = { correlationId: session, causationId: null };
  const { state, version } = await run(sessions, session, { type: "InterruptTurn" }, cause);
  if (state.status !== "running") throw new Refusal("no_open_turn", "The turn ended meanwhile");
  return { turnId: state.turnId, sequence: version.sequence };
}

export async function endSession(sessions: Sessions, session: string): Promise<EndedSession> {
  const cause = { correlationId: session, causationId: null };
  const { state, version } = await run(sessions, session, { type: "EndSession" }, cause);
  return { status: state.status === "ended" ? "ended" : "ending", sequence: version.sequence };
}

/** The message's own line, or the repository's name. */
function titleOf({ title, message, repository }: CreateRequest): string {
  const line = message?.text.split("\n").find((part) => part.trim() !== "");
  const name = repository?.url.split(/[/:]/).findLast((part) => part !== "");
  const text = title ?? line?.trim() ?? name ?? "New session";
  return text.slice(0, TITLE_CHARACTERS_MAX).toWellFormed();
}

async function freshOverview(
  sessions: Sessions,
  session: string,
  appended: LedgerMessage | undefined,
): Promise<SessionDetail> {
  const state = appended === undefined ? undefined : evolveOverview(undefined, appended);
  if (appended === undefined || state === undefined) return overviewOf(sessions, session);
  sessions.overviews.set(session, { state, version: { sequence: appended.sequence, hash: appended.hash } });
  return state;
}

/** Only asked for a message that was sent again, so reading the whole session is fine. */
async function sequenceOfMessage({ ledger }: Sessions, session: string, messageId: string): Promise<number> {
  const { messages, version } = await ledger.read(session);
  const holds = ({ events }: LedgerMessage) =>
    events.some((event) => event.type === "MessagePosted" && event.data.messageId === messageId);
  return messages.find(holds)?.sequence ?? version.sequence;
}
