// Opening a session of 50,000 events: the brain's fold with and without a kept one, the gateway's newest page and
// its overview, beside a raw read of the same rows. PostgreSQL and NATS are real.

import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";
import { ledgerSubject } from "#schemas/ledger/subjects.ts";
import { SessionRecord } from "#services/brain/session/record.ts";
import { readNewest } from "#services/gateway/events/newest.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { type Database, openDatabase } from "#shared/database/database.ts";
import { migrate } from "#shared/database/migrate.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { openSnapshots } from "#shared/database/snapshots.ts";
import { writeBatch } from "#shared/database/write-batch.ts";
import { newId } from "#shared/ids/ids.ts";
import { encodeMessage } from "#shared/ledger/codec.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";
import { noSnapshots, type Snapshots } from "#shared/ledger/snapshots.ts";
import type { NatsConnection } from "#shared/nats/connection.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { stopTestPostgres, testDatabase } from "#shared/testing/postgres.ts";
import { median, type Row, row, timed } from "./row.ts";

const EVENTS = 50_000;
const TURNS_PER_SUMMARY = 100;
const BATCH = 500;
const RUNS = 5;
/** Messages that are newer than the kept fold: as many as there may be. */
const TAIL = 1_000;

type Place = Readonly<{ nats: NatsConnection; database: Database; ledger: Ledger; shards: number }>;

export async function longSessionBench(): Promise<Row[]> {
  const resources = new Resources();
  try {
    const place = await open(resources);
    const { database, ledger } = place;
    const session = newId("session");
    const parts = turns(EVENTS);
    const head = await write(place, session, parts.slice(0, -TAIL), NEW_SESSION);
    const whole: number[] = [await timed(() => opened(ledger, session, noSnapshots))];
    const snapshots = openSnapshots(database);
    const record = await opened(ledger, session, snapshots);
    await record.keep(fail);
    await write(place, session, parts.slice(-TAIL), head);
    const withSnapshot = await several(() => opened(ledger, session, snapshots));
    const raw = await several(() => mirrorReader(database).read(session, 0));
    const rawTail = await several(() => mirrorReader(database).read(session, head.sequence));
    const pages = { ledger, database, blobs: memoryBlobs() };
    const newest = await several(() => readNewest(pages, session, "end", 200));
    return [
      row(`fold ${EVENTS} events whole`, "ms", { value: median(whole), baseline: raw }),
      row("open with a kept fold", "ms", { value: withSnapshot, baseline: raw }, { atMost: 500 }),
      row("  beside a raw read of the tail", "ms", { value: withSnapshot, baseline: rawTail }),
      row("newest page of 200", "ms", { value: newest, baseline: raw }, { atMost: 500 }),
    ];
  } finally {
    await resources.close();
    await stopTestPostgres();
  }
}

async function open(resources: Resources): Promise<Place> {
  const server = resources.add("nats", await startTestNats({ shards: 8 }), ({ close }) => close());
  const postgres = resources.add("database", await testDatabase(), ({ close }) => close());
  const database = resources.add("pool", await openDatabase(postgres.url), ({ close }) => close());
  await migrate(database);
  const nats = await server.connect("brain");
  const { shards } = server;
  const mirror = mirrorReader(database);
  return {
    nats,
    database,
    shards,
    ledger: openLedger({ nats, writer: "brain", shards, blobs: memoryBlobs(), mirror }),
  };
}

async function opened(ledger: Ledger, session: string, snapshots: Snapshots): Promise<SessionRecord> {
  const record = new SessionRecord(ledger, session, snapshots);
  await record.catchUp();
  if (record.state.status !== "idle") throw new Error(`The session is ${record.state.status}`);
  return record;
}

async function several(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) times.push(await timed(work));
  return median(times);
}

type Part = Readonly<{ writer: Writer; events: readonly PistisEvent[] }>;

/** Into the stream and into the mirror, as fast as both take it. */
async function write(place: Place, session: string, parts: readonly Part[], from: Version): Promise<Version> {
  let version = from;
  for (let start = 0; start < parts.length; start += BATCH) {
    const messages: LedgerMessage[] = [];
    for (const { writer, events } of parts.slice(start, start + BATCH)) {
      const cause = { correlationId: session, causationId: null };
      const message = await encodeMessage(writer, { session, expected: version, events, cause }, memoryBlobs());
      version = { sequence: version.sequence + 1, hash: message.hash };
      messages.push({ ...message, sequence: version.sequence });
    }
    await Promise.all(messages.map((message) => publish(place, message)));
    await writeBatch(place.database.pool, { messages, overviews: [], marks: [] });
  }
  return version;
}

async function publish({ nats, shards }: Place, { session, bytes, id, sequence }: LedgerMessage): Promise<void> {
  const { seq } = await nats.jetstream().publish(ledgerSubject(session, shards), bytes, { msgID: id });
  if (seq !== sequence) throw new Error(`Message ${sequence} was stored at ${seq}`);
}

function turns(count: number): Part[] {
  const data = { title: "Long", model: "m", provider: "local" };
  const parts: Part[] = [{ writer: "gateway", events: [{ type: "SessionCreated", data }] }];
  let events = 1;
  for (let index = 1; events < count; index++) {
    const made = turn(index);
    parts.push(...made);
    events += made.reduce((sum, part) => sum + part.events.length, 0);
  }
  return parts;
}

/** A turn of four commands, with the summary that a model's window asks for now and then. */
function turn(index: number): Part[] {
  const turnId = newId("turn");
  const messageId = newId("message");
  const usage = { inputTokens: 20_000, outputTokens: 200, cachedInputTokens: 0 };
  const reply = (content: Extract<PistisEvent, { type: "ModelReplied" }>["data"]["content"]): PistisEvent => ({
    type: "ModelReplied",
    data: {
      turnId,
      replyId: newId("reply"),
      model: "m",
      content,
      finishReason: "stop",
      usage,
      costUsd: 0.01,
      requestMs: 900,
    },
  });
  const command = (): Part[] => {
    const callId = newId("call");
    const input = { command: `grep -rn "something ${index}" src | head -20` };
    const call = reply([
      { type: "text", text: "I look at where it is used." },
      { type: "tool-call", callId, modelCallId: callId, tool: "bash", input },
    ]);
    const outcome = { status: "exited", exitCode: 0 } as const;
    const text = `src/module-${index}.ts: something happens here\n`.repeat(12);
    return [
      {
        writer: "brain",
        events: [call, { type: "ToolStarted", data: { turnId, callId, tool: "bash", epoch: index } }],
      },
      { writer: "brain", events: [{ type: "ToolDone", data: { turnId, callId, outcome, text, durationMs: 12 } }] },
    ];
  };
  const last = reply([{ type: "text", text: "Done: all uses are changed and the tests pass." }]);
  const replyId = last.type === "ModelReplied" ? last.data.replyId : "";
  const compaction = {
    kind: "summarized",
    uptoReplyId: replyId,
    summary: "s".repeat(4_000),
    usage,
    costUsd: 0.1,
  } as const;
  const compacted: PistisEvent = {
    type: "HistoryCompacted",
    data: { turnId, compaction, tokensBefore: 150_000, tokensAfter: 40_000 },
  };
  const ended: PistisEvent = { type: "TurnEnded", data: { turnId, reason: "completed" } };
  return [
    { writer: "gateway", events: [{ type: "MessagePosted", data: { messageId, text: "Go on", delivery: "steer" } }] },
    {
      writer: "brain",
      events: [{ type: "TurnStarted", data: { turnId, epoch: index, brain: "b", messageIds: [messageId] } }],
    },
    ...[0, 1, 2, 3].flatMap(command),
    { writer: "brain", events: index % TURNS_PER_SUMMARY === 0 ? [last, compacted, ended] : [last, ended] },
  ];
}

function fail(error: unknown): never {
  throw error;
}
