// How much of the ledger can be written and read in a second, beside bare JetStream on the same server: appends one
// after another and many in flight, and a replay of all of it; then the projection into PostgreSQL beside bare inserts
// of the same rows.
import { AckPolicy, DeliverPolicy, type JetStreamClient, type NatsConnection } from "nats";
import type { PistisEvent, Writer } from "#schemas/ledger/event.ts";
import { LEDGER_STREAM } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION, type Version } from "#shared/ledger/ledger.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { Resources } from "#shared/service/resources.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { stopTestPostgres } from "#shared/testing/postgres.ts";
import { projectionRows } from "./projection.ts";
import { type Row, row, timed } from "./row.ts";

const SERIAL = 1_500;
const IN_FLIGHT = 64;
const PER_SESSION = 200;
const ROUNDS = 5;
const BARE_STREAM = "BARE";

export type LedgerPlace = Readonly<{
  server: TestNats;
  nats: NatsConnection;
  open: (writer: Writer) => Ledger;
  jetstream: JetStreamClient;
}>;
type Session = { id: string; version: Version; appended: number; bareSequence: number };

export async function ledgerThroughputBench(): Promise<Row[]> {
  const resources = new Resources();
  try {
    const place = await open(resources);
    const [one] = await newSessions(place, 1);
    const serial = await appendsPerSecond(place, one === undefined ? [] : [one], SERIAL);
    const atOnce = await appendsPerSecond(place, await newSessions(place, IN_FLIGHT), PER_SESSION);
    const stored = await replay(place);
    const replayed = { value: stored.perSecond, baseline: await bareReplayPerSecond(place) };
    return [
      row("ledger appends, one after another", "1/s", serial, { ratioAtLeast: 0.8 }),
      row(`ledger appends, ${IN_FLIGHT} in flight`, "1/s", atOnce, { ratioAtLeast: 0.5 }),
      row("ledger replay, checked and parsed", "1/s", replayed, { ratioAtLeast: 0.25 }),
      ...(await projectionRows(place, stored.messages, resources)),
    ];
  } finally {
    await resources.close();
    await stopTestPostgres();
  }
}

async function open(resources: Resources): Promise<LedgerPlace> {
  const server = resources.add("nats", await startTestNats({ shards: 8 }), ({ close }) => close());
  const [nats, bare] = [await server.connect("gateway"), await server.connect("setup")];
  const manager = await bare.jetstreamManager();
  await manager.streams.add({ name: BARE_STREAM, subjects: ["bare.*"], allow_direct: true });
  const blobs = memoryBlobs();
  return {
    ...{ server, nats, jetstream: bare.jetstream() },
    open: (writer) => openLedger({ nats, writer, shards: server.shards, blobs }),
  };
}

async function newSessions({ open: openFor }: LedgerPlace, count: number): Promise<Session[]> {
  const gateway = openFor("gateway");
  const created: PistisEvent = { type: "SessionCreated", data: { title: "Bench", model: "m", provider: "local" } };
  return Promise.all(
    Array.from({ length: count }, async () => {
      const id = newId("session");
      const { sequence, hash } = await gateway.append(id, NEW_SESSION, [created], causeOf(id));
      return { id, version: { sequence, hash }, appended: 0, bareSequence: 0 };
    }),
  );
}

/** The ledger and the bare stream take turns, so that what else the machine does hits both. */
async function appendsPerSecond({ open: openFor, jetstream }: LedgerPlace, sessions: readonly Session[], each: number) {
  const ledger = openFor("brain");
  let bytes = new Uint8Array();
  const append = async (session: Session) => {
    const event = eventNumber(session.appended++);
    const { sequence, hash, ...message } = await ledger.append(
      session.id,
      session.version,
      [event],
      causeOf(session.id),
    );
    session.version = { sequence, hash };
    bytes = new Uint8Array(message.bytes);
  };
  const publish = async (session: Session) => {
    const options = { msgID: newId("event"), expect: { lastSubjectSequence: session.bareSequence } };
    session.bareSequence = (await jetstream.publish(`bare.${session.id}`, bytes, options)).seq;
  };
  let [ownMs, bareMs] = [0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    ownMs += await timed(() => eachSome(sessions, each / ROUNDS, append));
    bareMs += await timed(() => eachSome(sessions, each / ROUNDS, publish));
  }
  return { value: perSecond(sessions.length * each, ownMs), baseline: perSecond(sessions.length * each, bareMs) };
}

/** Each session does one after the other; the sessions do not wait for each other. */
async function eachSome(sessions: readonly Session[], times: number, work: (session: Session) => Promise<void>) {
  await Promise.all(
    sessions.map(async (session) => {
      for (let time = 0; time < times; time++) await work(session);
    }),
  );
}

/** A call's start, and its end with a little output, in turn. */
function eventNumber(index: number): PistisEvent {
  const call = { turnId: "trn_1", callId: `call_${Math.floor(index / 2)}` };
  if (index % 2 === 0) return { type: "ToolStarted", data: { ...call, tool: "bash", epoch: 1 } };
  const text = "src/module.ts: something happens here\n".repeat(10);
  return { type: "ToolDone", data: { ...call, outcome: { status: "exited", exitCode: 0 }, text, durationMs: 12 } };
}

/** The whole ledger through the feed that every reader has. */
async function replay({ server, nats }: LedgerPlace): Promise<{ messages: LedgerMessage[]; perSecond: number }> {
  const end = await lastSequence(nats);
  const feed = openLedgerFeed({ nats, shards: server.shards, blobs: memoryBlobs(), log: silentLog });
  const messages: LedgerMessage[] = [];
  const stop = new AbortController();
  const ms = await timed(async () => {
    for await (const message of feed.follow({ after: 0, signal: stop.signal })) {
      messages.push(message);
      if (message.sequence === end) stop.abort();
    }
  });
  return { messages, perSecond: perSecond(messages.length, ms) };
}

/** The client's own consumer, which is handed the bytes and looks at nothing. */
async function bareReplayPerSecond({ server }: LedgerPlace): Promise<number> {
  const nats = await server.connect("setup");
  const manager = await nats.jetstreamManager();
  const consumer = await manager.consumers.add(LEDGER_STREAM, {
    ...{ ack_policy: AckPolicy.None, deliver_policy: DeliverPolicy.All, mem_storage: true },
  });
  const messages = await (await nats.jetstream().consumers.get(LEDGER_STREAM, consumer.name)).consume();
  let count = 0;
  const ms = await timed(async () => {
    for await (const message of messages) {
      count++;
      if (message.info.pending === 0) break;
    }
  });
  return perSecond(count, ms);
}

async function lastSequence(nats: NatsConnection): Promise<number> {
  const manager = await nats.jetstreamManager({ checkAPI: false });
  return (await manager.streams.info(LEDGER_STREAM)).state.last_seq;
}

function causeOf(session: string) {
  return { correlationId: session, causationId: null };
}

export function perSecond(count: number, ms: number): number {
  return (count / ms) * 1_000;
}
