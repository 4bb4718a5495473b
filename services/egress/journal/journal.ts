// What sandboxes asked for, on its way to the ledger. Each request is an entry; beyond a number in a minute they are
// counted instead, so that a sandbox can neither flood the ledger nor hide. What goes on longer than a report's time is
// told when it begins and again when it ends, so that a death of this process hides no long one.
import { setTimeout as delay } from "node:timers/promises";
import { EGRESS_REQUESTS_MAX, type EgressRequest, type EgressUntold } from "#schemas/network/egress-request.ts";
import type { Report } from "#schemas/provider/task.ts";
import { failureOf } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";
import type { Client } from "../pipe/pipe.ts";

export type EgressReport = Extract<Report, { kind: "egress" }>;

/** A request that is being answered. */
export type Entry = {
  readonly client: Client;
  readonly request: Pick<EgressRequest, "host" | "port" | "via">;
  readonly startedAt: number;
  /** Bytes so far. */
  bytes: () => { up: number; down: number };
  told: boolean;
};

export type Journal = Readonly<{
  begin: (client: Client, request: Entry["request"]) => Entry;
  /** Let through: from now on it is told of, also while it goes on. */
  opened: (entry: Entry, bytes: Entry["bytes"]) => void;
  end: (entry: Entry, reason: EgressRequest["reason"]) => void;
  /** Sends what is left. */
  close: () => Promise<void>;
}>;

export type JournalSettings = Readonly<{
  /** Resolves when the report is stored. */
  send: (id: string, report: EgressReport) => Promise<void>;
  eventsPerMinuteMax: number;
  reportMs: number;
  /** Milliseconds on a steady clock. */
  now: () => number;
  log: Log;
}>;

type Page = {
  readonly client: Client;
  requests: EgressRequest[];
  untold: EgressUntold;
  /** Entries told in the minute that began at `minuteAt`. */
  minuteAt: number;
  told: number;
};

type Book = JournalSettings & {
  pages: Map<string, Page>;
  open: Set<Entry>;
  unsent: { id: string; report: EgressReport }[];
};

const MINUTE_MS = 60_000;
const UNSENT_MAX = 2_000;
const CLOSE_MS_MAX = 5_000;
const NOTHING: EgressUntold = { allowed: 0, refused: 0, bytesUp: 0, bytesDown: 0 };
const NO_BYTES = () => ({ up: 0, down: 0 });

export function openJournal(settings: JournalSettings): Journal {
  const book: Book = { ...settings, pages: new Map(), open: new Set(), unsent: [] };
  const closing = new AbortController();
  const running = keepTelling(book, closing.signal);
  return {
    begin: (client, request) => ({ client, request, startedAt: settings.now(), bytes: NO_BYTES, told: false }),
    opened: (entry, bytes) => {
      entry.bytes = bytes;
      book.open.add(entry);
    },
    end: (entry, reason) => {
      book.open.delete(entry);
      note(book, entry, reason);
    },
    close: async () => {
      for (const entry of book.open) note(book, entry, "ended");
      closing.abort();
      await running;
    },
  };
}

const LET_THROUGH: ReadonlySet<EgressRequest["reason"]> = new Set(["ended", "open"]);
/** Found out after the name was allowed. */
const AFTER_ALLOWED: ReadonlySet<EgressRequest["reason"]> = new Set([
  "name_unknown",
  "name_unresolved",
  "connect_failed",
]);

function note(book: Book, entry: Entry, reason: EgressRequest["reason"]): void {
  const page = pageOf(book, entry.client);
  const { up, down } = entry.bytes();
  const request: EgressRequest = {
    ...entry.request,
    allowed: LET_THROUGH.has(reason) || AFTER_ALLOWED.has(reason),
    reason,
    bytesUp: up,
    bytesDown: down,
    durationMs: Math.max(0, Math.round(book.now() - entry.startedAt)),
  };
  if (mayTell(book, page)) page.requests.push(request);
  else page.untold = counted(page.untold, request, entry.told);
  entry.told = true;
}

function pageOf({ pages, now }: Book, client: Client): Page {
  const key = `${client.sandboxId} ${client.generation}`;
  const known = pages.get(key);
  if (known !== undefined) return known;
  const page = { client, requests: [], untold: NOTHING, minuteAt: now(), told: 0 };
  pages.set(key, page);
  return page;
}

function mayTell({ eventsPerMinuteMax }: Book, page: Page): boolean {
  page.told += 1;
  return page.told <= eventsPerMinuteMax;
}

/** A request counts once, when it is first heard of, and its bytes when it is over. */
function counted(untold: EgressUntold, request: EgressRequest, told: boolean): EgressUntold {
  const one = told ? 0 : 1;
  const ended = request.reason === "open" ? 0 : 1;
  return {
    allowed: untold.allowed + (request.allowed ? one : 0),
    refused: untold.refused + (request.allowed ? 0 : one),
    bytesUp: untold.bytesUp + ended * request.bytesUp,
    bytesDown: untold.bytesDown + ended * request.bytesDown,
  };
}

async function keepTelling(book: Book, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await delay(book.reportMs, undefined, { signal }).catch(() => undefined);
    for (const entry of book.open) if (!entry.told && !signal.aborted) note(book, entry, "open");
    gather(book, signal.aborted);
    await sendAll(book);
  }
  const giveUpAt = book.now() + CLOSE_MS_MAX;
  while (book.unsent.length > 0 && book.now() < giveUpAt) await sendAll(book);
  if (book.unsent.length > 0)
    book.log.error({ reports: book.unsent.length }, "Requests of sandboxes could not be told");
}

/** A page without news for a minute is forgotten. What is told only as a count waits for its minute's end, or the last. */
function gather(book: Book, isLast: boolean): void {
  for (const [key, page] of book.pages) {
    const isOver = isLast || book.now() - page.minuteAt >= MINUTE_MS;
    const { sandboxId, generation } = page.client;
    while (page.requests.length > 0) {
      const requests = page.requests.splice(0, EGRESS_REQUESTS_MAX);
      add(book, { kind: "egress", sandboxId, generation, batch: newId("event"), requests });
    }
    if (isOver && page.untold !== NOTHING) {
      const untold = page.untold;
      page.untold = NOTHING;
      add(book, { kind: "egress", sandboxId, generation, batch: newId("event"), requests: [], untold });
    }
    if (isOver && page.told === 0) book.pages.delete(key);
    if (isOver) Object.assign(page, { minuteAt: book.now(), told: 0 });
  }
}

function add({ unsent, log }: Book, report: EgressReport): void {
  if (unsent.length >= UNSENT_MAX) {
    log.error({ ...report }, "There is no room for more that is to be told; it stands here only");
    return;
  }
  unsent.push({ id: report.batch, report });
}

async function sendAll({ unsent, send, log }: Book): Promise<void> {
  try {
    for (let next = unsent[0]; next !== undefined; next = unsent[0]) {
      await send(next.id, next.report);
      unsent.shift();
    }
  } catch (error) {
    log.warn({ failure: failureOf(error), waiting: unsent.length }, "A report is not stored yet, trying again");
  }
}
