// What only a real server can show: lost acknowledgements, lost connections, many writers, and replays that count.
import { expect } from "chai";
import { ErrorCode, type NatsConnection, NatsError } from "nats";
import { LEDGER_STREAM, ledgerSubject, PARKED_STREAM } from "#schemas/ledger/subjects.ts";
import { memoryBlobs } from "#shared/blobs/memory.ts";
import { newId } from "#shared/ids/ids.ts";
import { encodeMessage, type StoredMessage } from "#shared/ledger/codec.ts";
import type { Parked } from "#shared/ledger/delivery.ts";
import {
  type Ledger,
  type LedgerFeed,
  type LedgerMessage,
  NEW_SESSION,
  VersionConflict,
} from "#shared/ledger/ledger.ts";
import { verifyChain } from "#shared/ledger/verify.ts";
import { silentLog } from "#shared/service/log.ts";
import {
  appendMany,
  causeOf,
  expectFatal,
  failureFrom,
  lastOf,
  posted,
  take,
  versionOf,
} from "#shared/testing/messages.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";
import { publish } from "./publish.ts";

describe("JetStream ledger", () => {
  const blobs = memoryBlobs();
  let server: TestNats;
  let nats: NatsConnection;
  let gateway: Ledger;
  let feed: LedgerFeed;
  let session: string;
  const stop = new AbortController();

  before(async () => {
    server = await startTestNats();
    nats = await server.connect("gateway");
    gateway = openLedger({ nats, writer: "gateway", shards: server.shards, blobs });
    const brain = await server.connect("brain");
    feed = openLedgerFeed({ nats: brain, shards: server.shards, blobs, log: silentLog });
  });
  after(async () => {
    stop.abort();
    await server.close();
  });
  beforeEach(() => {
    session = newId("session");
  });

  it("finds its own message after a lost acknowledgement, also when others have written since", async () => {
    const message = await encode(NEW_SESSION, "mine");
    const publication = { subject: subjectOf(session), expectedSequence: 0, message };
    const first = await publish(nats, publication, { patienceMs: 5_000 });
    expect(await publish(nats, publication, { patienceMs: 5_000 })).to.equal(first);
    await gateway.append(session, { sequence: first, hash: message.hash }, [posted("another")], causeOf(session));
    expect(await publish(nats, publication, { patienceMs: 5_000 })).to.equal(first);
    expect((await gateway.read(session)).messages).to.have.length(2);
  });

  it("stores one message when the acknowledgement is lost and the append is sent again", async () => {
    const lossy = losingReplies(nats, 2);
    const ledger = openLedger({ nats: lossy, writer: "gateway", shards: server.shards, blobs });
    const message = await ledger.append(session, NEW_SESSION, [posted("once")], causeOf(session));
    expect((await gateway.read(session)).messages).to.deep.equal([message]);
  });

  it("I4: lets one of 20 writers win each of 25 rounds", async () => {
    let version = NEW_SESSION;
    for (let round = 0; round < 25; round++) {
      const from = version;
      const tries = Array.from({ length: 20 }, () =>
        gateway.append(session, from, [posted("x")], causeOf(session)).catch((error: unknown) => error),
      );
      const ends = await Promise.all(tries);
      expect(ends.filter((end) => end instanceof VersionConflict)).to.have.length(19);
      version = (await gateway.read(session, version)).version;
    }
    const { messages } = await gateway.read(session);
    expect(messages).to.have.length(25);
    expect(await verifyChain(messages)).to.equal(undefined);
  });

  it("puts the event types and the message's id into headers", async () => {
    const { id, sequence } = await gateway.append(session, NEW_SESSION, [posted("a"), posted("b")], causeOf(session));
    const manager = await nats.jetstreamManager();
    const stored = await manager.streams.getMessage(LEDGER_STREAM, { seq: sequence });
    expect(stored.header.get("Pistis-Types")).to.equal("MessagePosted");
    expect(stored.header.get("Nats-Msg-Id")).to.equal(id);
  });

  it("reads the mirror first and the tail from the stream, and only the tail when it knows the rest", async () => {
    const appended = await appendMany(gateway, session, 10);
    const asked: number[] = [];
    const mirror = {
      read: async (_session: string, after: number) => {
        asked.push(after);
        return appended.slice(0, 6).filter(({ sequence }) => sequence > after);
      },
    };
    const mirrored = openLedger({ nats, writer: "gateway", shards: server.shards, blobs, mirror });
    expect((await mirrored.read(session)).messages).to.deep.equal(appended);
    const tail = await mirrored.read(session, appended[7]);
    expect(tail.messages).to.deep.equal(appended.slice(8));
    expect(asked).to.deep.equal([0]);
  });

  it("C138: reads a session whose mirror has lost or changed a message from the stream alone, and says so", async () => {
    const appended = await appendMany(gateway, session, 60);
    const foreign = await appendMany(gateway, newId("session"), 1);
    const changed = (index: number) => (row: LedgerMessage, at: number) => (at === index ? altered(row) : row);
    for (const rows of [
      appended.filter((_, index) => index !== 1),
      appended.slice(1),
      foreign,
      [...appended, ...foreign],
      appended.map(changed(1)),
      appended.slice(0, 3).map(changed(2)),
      [{ ...appended[0], bytes: new TextEncoder().encode("{}"), sequence: 1 }],
    ]) {
      const errors: object[] = [];
      const log = { ...silentLog, error: (fields: object) => void errors.push(fields) };
      const ledger = ledgerWithMirror(rows, log);
      expect((await ledger.read(session)).messages).to.deep.equal(appended);
      expect(errors.map((fields) => "code" in fields && fields.code)).to.deep.equal(["mirror_broken"]);
    }
  });

  it("C138: goes on from what it knows when the mirror does not follow on it", async () => {
    const appended = await appendMany(gateway, session, 60);
    const ledger = ledgerWithMirror(appended.slice(55));
    expect((await ledger.read(session, appended[1])).messages).to.deep.equal(appended.slice(2));
  });

  it("C138: refuses a session whose stream has lost a message that the mirror does not have either", async () => {
    const [first] = await appendMany(gateway, session, 1);
    if (first === undefined) throw new Error("Nothing was appended");
    const { bytes } = await encode({ sequence: first.sequence, hash: "0".repeat(64) }, "b");
    await nats.jetstream().publish(subjectOf(session), bytes);
    for (const rows of [[], [first]]) await expectFatal("chain_broken", () => ledgerWithMirror(rows).read(session));
  });

  it("says that a session cannot be read whose messages a newer version wrote", async () => {
    await appendUnknown();
    await expectFatal("event_unknown", () => gateway.read(session));
    const following = feed.follow({ after: 0, session, signal: stop.signal });
    await expectFatal("event_unknown", () => take(1, following));
  });

  it("parks what a newer version wrote and goes on with what follows, in reactions and in a stream of all", async () => {
    const from = (await appendMany(gateway, newId("session"), 1))[0]?.sequence ?? 0;
    const unknown = await appendUnknown();
    const [after] = await appendMany(gateway, session, 1, { sequence: unknown, hash: "0".repeat(64) });
    expect(await take(1, feed.follow({ after: from, signal: stop.signal }))).to.deep.equal([after]);
    const all = Promise.withResolvers<void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      if (messages.some(({ id }) => id === after?.id)) all.resolve();
    };
    const running = await feed.react({ consumer: "brain", handle });
    await all.promise;
    await running.close();
    const parked = (await parkedMessages()).find(({ sequence }) => sequence === unknown);
    expect(parked).to.include({ session, code: "event_unknown" });
    expect(parked?.next).to.contain("Update");
  });

  it("reports a missing stream or a closed connection as something that may work later, with a next step", async () => {
    const closed = await server.connect("gateway");
    await closed.close();
    const ledger = openLedger({ nats: closed, writer: "gateway", shards: server.shards, blobs });
    for (const act of [
      () => ledger.append(session, NEW_SESSION, [posted("a")], causeOf(session)),
      () => ledger.read(session),
    ]) {
      expect(await failureFrom(act)).to.deep.include({ code: "ledger_unavailable", retryAfterMs: 500 });
    }
  });

  it("is refused by the server where its user may not write", async () => {
    const projector = await server.connect("projector");
    const ledger = openLedger({ nats: projector, writer: "gateway", shards: server.shards, blobs });
    await expectFatal("ledger_refused", () => ledger.append(session, NEW_SESSION, [posted("a")], causeOf(session)));
  });

  it("follows across a lost connection without a gap or a repeat", async () => {
    const own = await server.connect("brain");
    const following = openLedgerFeed({ nats: own, shards: server.shards, blobs, log: silentLog });
    const seen = take(60, following.follow({ after: 0, session, signal: stop.signal }));
    const appended: LedgerMessage[] = [];
    for (let part = 0; part < 3; part++) {
      const version = appended.length === 0 ? NEW_SESSION : versionOf(lastOf(appended));
      appended.push(...(await appendMany(gateway, session, 10, version)));
      const reconnecting = own.reconnect();
      appended.push(...(await appendMany(gateway, session, 10, versionOf(lastOf(appended)))));
      await reconnecting;
    }
    expect((await seen).map(({ id }) => id)).to.deep.equal(appended.map(({ id }) => id));
  });

  it("takes no more for a slow reader than fits its window, and loses nothing for it", async () => {
    const appended = await appendMany(gateway, session, 300);
    const following = feed.follow({ after: 0, session, signal: stop.signal })[Symbol.asyncIterator]();
    const read: LedgerMessage[] = [];
    for (let count = 0; count < 100; count++) read.push(...(await next(following)));
    const manager = await (await server.connect("setup")).jetstreamManager();
    const consumers = await manager.consumers.list(LEDGER_STREAM).next();
    const own = consumers.find(({ config }) => config.filter_subject === subjectOf(session));
    expect(own?.delivered.consumer_seq).to.be.within(100, 228);
    while (read.length < 300) read.push(...(await next(following)));
    expect(read.map(({ id }) => id)).to.deep.equal(appended.map(({ id }) => id));
  });

  it("gives the message of a replica that died with it in hand to another one, before what follows it", async () => {
    const appended = await appendMany(gateway, session, 3);
    const dying = await server.connect("scheduler");
    const taken = Promise.withResolvers<void>();
    const dead = await feedOf(dying).react({ consumer: "scheduler", handle: hangAt(session, taken.resolve) });
    await taken.promise;
    await dying.close();
    const seen: string[] = [];
    const all = Promise.withResolvers<void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      seen.push(...messages.filter((message) => message.session === session).map(({ id }) => id));
      if (seen.length === 3) all.resolve();
    };
    const running = await feedOf(await server.connect("scheduler")).react({ consumer: "scheduler", handle });
    await all.promise;
    expect(seen).to.deep.equal(appended.map(({ id }) => id));
    await running.close();
    release.abort();
    await dead.close();
  });

  function ledgerWithMirror(rows: readonly StoredMessage[], log = silentLog): Ledger {
    const mirror = { read: async (_session: string, after: number) => rows.filter(({ sequence }) => sequence > after) };
    return openLedger({ nats, writer: "gateway", shards: server.shards, blobs, mirror, log });
  }

  const release = new AbortController();

  /** Handles at once what is not of this session, and hangs at the first that is until `release` aborts. */
  function hangAt(id: string, reached: () => void) {
    return (messages: readonly LedgerMessage[]) => {
      if (messages.every((message) => message.session !== id)) return Promise.resolve();
      reached();
      return new Promise<void>((resolve) => release.signal.addEventListener("abort", () => resolve()));
    };
  }

  function feedOf(connection: NatsConnection): LedgerFeed {
    return openLedgerFeed({ nats: connection, shards: server.shards, blobs, log: silentLog });
  }

  function subjectOf(id: string): string {
    return ledgerSubject(id, server.shards);
  }

  function encode(expected: typeof NEW_SESSION, text: string) {
    return encodeMessage("gateway", { session, expected, events: [posted(text)], cause: causeOf(session) }, blobs);
  }

  /** The sequence of a message that only a later version can read. */
  async function appendUnknown(): Promise<number> {
    const { bytes } = await encode(NEW_SESSION, "a");
    const newer = new TextDecoder().decode(bytes).replace('"version":1', '"version":2');
    return (await nats.jetstream().publish(subjectOf(session), newer)).seq;
  }

  async function parkedMessages(): Promise<Parked[]> {
    const setup = await server.connect("setup");
    const manager = await setup.jetstreamManager();
    const { state } = await manager.streams.info(PARKED_STREAM);
    const sequences = Array.from({ length: state.messages }, (_, index) => state.first_seq + index);
    const stored = sequences.map((seq) => manager.streams.getMessage(PARKED_STREAM, { seq }));
    return (await Promise.all(stored)).map((message) => message.json<Parked>());
  }
});

/** Its own chain holds, but whatever follows on the message as it was does not follow on it. */
function altered(row: LedgerMessage): StoredMessage {
  const text = new TextDecoder().decode(row.bytes).replace('"correlationId":"', '"correlationId":"x');
  return { sequence: row.sequence, bytes: new TextEncoder().encode(text) };
}

async function next(feed: AsyncIterator<LedgerMessage>): Promise<LedgerMessage[]> {
  const { done, value } = await feed.next();
  return done === true ? [] : [value];
}

/** The same connection, but the first `count` replies to appends do not arrive. */
function losingReplies(nats: NatsConnection, count: number): NatsConnection {
  const lossy: NatsConnection = Object.create(nats);
  let left = count;
  lossy.request = async (subject, payload, options) => {
    const reply = await nats.request(subject, payload, options);
    if (subject.startsWith("ledger.") && left-- > 0) throw NatsError.errorForCode(ErrorCode.Timeout);
    return reply;
  };
  return lossy;
}
