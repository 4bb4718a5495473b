// Server-Sent-Event streams. A client's mailbox takes in what comes from now on, then the past is read up to now,
// then the mailbox is emptied from the cursor on: no gap, no repeat, whenever the client comes and however often.
import type { ServerResponse } from "node:http";
import type { InstallStreamQuery } from "#schemas/api/stream.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { LedgerFeed, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { LiveSubscriber } from "#shared/live/live.ts";
import type { Log } from "#shared/service/log.ts";
import type { GatewayLimits } from "../limits.ts";
import { type Client, openClient } from "./client.ts";
import type { Hub } from "./hub.ts";
import { readNewest } from "./newest.ts";
import { type Pages, readPage } from "./pages.ts";
import { ledgerFrame, liveFrame } from "./view.ts";

export type Streams = Readonly<{
  pages: Pages;
  hub: Hub;
  feed: LedgerFeed;
  live: LiveSubscriber;
  clients: Set<Client>;
  limits: GatewayLimits;
  log: Log;
}>;

/** After the cursor `after`; without one with the last so many messages, or with the first. */
export type SessionStart = Readonly<{ session: string; after?: number | undefined; last?: number | undefined }>;

/** Resolves when the client is gone. Throws `session_not_found` and `too_many_streams` before it answers. */
export async function streamSession(streams: Streams, from: SessionStart, response: ServerResponse): Promise<void> {
  const { session } = from;
  const client = admit(streams, response);
  const unsubscribe = streams.hub.subscribe(session, client.mailbox.put);
  try {
    const cursor = await sendPast(streams, client, from);
    const unsubscribeLive = streams.live.subscribe(session, (of, message) => client.offer(liveFrame(of, message)));
    client.signal.addEventListener("abort", unsubscribeLive);
    if (client.signal.aborted) unsubscribeLive();
    await sendWaiting(client, cursor);
  } finally {
    unsubscribe();
    dismiss(streams, client);
  }
}

/** Resolves when the client is gone. Throws `too_many_streams`, and `session_not_found` when it is narrowed to one. */
export async function streamInstall(
  streams: Streams,
  query: InstallStreamQuery,
  response: ServerResponse,
): Promise<void> {
  const client = admit(streams, response);
  const wanted = filterOf(query);
  const put = (message: LedgerMessage) => {
    if (wanted(message)) client.mailbox.put(message);
  };
  const unsubscribe = streams.hub.subscribe(query.session ?? "*", put);
  const position = streams.hub.position();
  try {
    client.open();
    const after = query.after ?? position;
    if (after < position) await sendInstallPast(streams, client, { after, upTo: position, wanted });
    await sendWaiting(client, Math.max(after, position));
  } finally {
    unsubscribe();
    dismiss(streams, client);
  }
}

/** Ends all streams; their clients come back with their cursors. */
export function endStreams({ clients }: Streams): void {
  for (const client of clients) client.leave();
}

async function sendPast(streams: Streams, client: Client, from: SessionStart): Promise<number> {
  const { session } = from;
  const first = await firstPage(streams, from);
  let { page } = first;
  client.open();
  for (;;) {
    for (const message of page.messages) await client.send(ledgerFrame(message));
    if (first.isLast || !page.more || client.signal.aborted) return page.cursor;
    page = await readPage(streams.pages, session, page.cursor, streams.limits.catchUpPage);
  }
}

/** `isLast`: it ends with the session's newest message. */
async function firstPage({ pages, limits }: Streams, { session, after, last }: SessionStart) {
  if (after !== undefined || last === undefined) {
    return { page: await readPage(pages, session, after ?? 0, limits.catchUpPage), isLast: false };
  }
  return { page: await readNewest(pages, session, "end", last), isLast: true };
}

/** The past of the whole install, up to a message that was fanned out, so that it surely ends. */
async function sendInstallPast(
  { feed }: Streams,
  client: Client,
  past: { after: number; upTo: number; wanted: (message: LedgerMessage) => boolean },
): Promise<void> {
  for await (const message of feed.follow({ after: past.after, signal: client.signal })) {
    if (message.sequence > past.upTo) return;
    if (past.wanted(message)) await client.send(ledgerFrame(message));
    if (message.sequence === past.upTo) return;
  }
}

async function sendWaiting(client: Client, cursor: number): Promise<void> {
  for await (const message of client.mailbox.take()) {
    if (message.sequence > cursor) await client.send(ledgerFrame(message));
  }
}

function filterOf({ session, writer, type }: InstallStreamQuery): (message: LedgerMessage) => boolean {
  return (message) =>
    (session === undefined || message.session === session) &&
    (writer === undefined || message.writer === writer) &&
    (type === undefined || message.events.some((event) => event.type === type));
}

function admit({ clients, limits, log }: Streams, response: ServerResponse): Client {
  if (clients.size >= limits.streamsMax) {
    const next = "Close streams that are not looked at, or try again later.";
    throw new Refusal("too_many_streams", `${clients.size} streams are open`, { next });
  }
  const client = openClient(response, limits, log);
  clients.add(client);
  return client;
}

function dismiss({ clients }: Streams, client: Client): void {
  clients.delete(client);
  client.leave();
}
