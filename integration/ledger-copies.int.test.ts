// The ledger has a second copy in PostgreSQL. Here a real nats-server loses what it had acknowledged, in every way that
// a store can: it is taken back to an older copy, wiped, written to after the loss, or damaged in one message.
import { rm } from "node:fs/promises";
import { expect } from "chai";
import { LEDGER_STREAM, ledgerSubject } from "#schemas/ledger/subjects.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { encodeMessage } from "#shared/ledger/codec.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import type { Verification } from "#shared/ledger/verification.ts";
import { openLedgerAndFeed } from "#shared/nats/access.ts";
import { openLedgerFeed } from "#shared/nats/ledger/jetstream-feed.ts";
import { planRepair, repairLedger } from "#shared/nats/ledger/repair.ts";
import { standingOf } from "#shared/nats/ledger/standing.ts";
import { verifyLedger } from "#shared/nats/ledger/verify-ledger.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany, causeOf, failureFrom, lastOf, posted, take, versionOf } from "#shared/testing/messages.ts";
import { openTwoCopies, type TwoCopies } from "./testing/two-copies.ts";

const IGNORED = () => undefined;

describe("the ledger's two copies", function () {
  this.timeout(60_000);
  let copies: TwoCopies;
  beforeEach(async () => {
    copies = await openTwoCopies();
  });
  afterEach(() => copies.close());

  async function verify(session?: string): Promise<Verification> {
    const { shards, blobs, mirror } = copies;
    return verifyLedger({ nats: await copies.connect("setup"), shards, blobs, mirror, session, onProgress: IGNORED });
  }

  async function parts() {
    const { shards, blobs, mirror } = copies;
    return { nats: await copies.connect("setup"), shards, blobs, mirror };
  }

  async function repair() {
    const plan = await planRepair(await parts());
    return plan === undefined ? undefined : repairLedger(await parts(), plan, IGNORED);
  }

  /** Messages of several sessions, one after another in the stream. */
  async function write(sessions: readonly string[], rounds: number, before = new Map<string, LedgerMessage>()) {
    const ledger = await copies.ledger();
    for (let round = 0; round < rounds; round++) {
      for (const session of sessions) {
        const [message] = await appendMany(ledger, session, 1, before.get(session));
        if (message !== undefined) before.set(session, message);
      }
    }
    return before;
  }

  const start = async (nats = "brain" as const) =>
    openLedgerAndFeed({
      nats: await copies.connect(nats),
      writer: nats,
      shards: copies.shards,
      blobs: copies.blobs,
      mirror: copies.mirror,
      log: silentLog,
    });

  it("are proved to be whole and alike", async () => {
    const sessions = [newId("session"), newId("session"), newId("session")];
    await write(sessions, 5);
    await copies.project();
    expect(await verify()).to.deep.equal({
      messages: 15,
      mirrored: 15,
      notYetMirrored: 0,
      lost: [],
      sessions: 3,
      faults: [],
      faultySessions: 0,
    });
    expect(await verify(sessions[1])).to.include({ messages: 5, mirrored: 5, sessions: 1, faultySessions: 0 });
    await start();
  });

  it("are whole when the mirror is behind: it catches up", async () => {
    const sessions = [newId("session"), newId("session")];
    const last = await write(sessions, 2);
    await copies.project();
    await write(sessions, 2, last);
    expect(await verify()).to.deep.include({ messages: 8, mirrored: 4, notYetMirrored: 4, faults: [] });
    await start();
  });

  it("C138: a tail that JetStream lost stops every start, and comes back with the same sequences", async () => {
    const sessions = [newId("session"), newId("session"), newId("session")];
    const last = await write(sessions, 20);
    await copies.keep("old");
    const end = await write(sessions, 30, last);
    await copies.project();
    const before = await copies.stored();
    await copies.rollBack("old");
    expect(await failureFrom(() => start())).to.include({ code: "ledger_behind_mirror" });
    const damaged = await verify();
    expect(damaged.faults.map(({ session, code }) => [session, code])).to.have.deep.members(
      sessions.map((session) => [session, "missing_in_ledger"]),
    );
    expect(damaged.faults.map(({ sequence }) => sequence)).to.deep.equal([61, 62, 63]);
    expect(await repair()).to.deep.equal({ messages: 90, lost: [] });
    expect(await copies.stored()).to.deep.equal(before);
    expect(await verify()).to.deep.include({ messages: 150, mirrored: 150, faults: [], lost: [] });
    expect(await repair()).to.equal(undefined);
    // The versions that services remember are right again.
    const { ledger } = await openLedgerAndFeed({
      nats: await copies.connect("gateway"),
      writer: "gateway",
      shards: copies.shards,
      blobs: copies.blobs,
      mirror: copies.mirror,
      log: silentLog,
    });
    const one = lastOf([...end.values()]);
    const next = await ledger.append(one.session, versionOf(one), [posted("on")], causeOf(one.session));
    expect(next).to.include({ sequence: 151, prev: one.hash });
  });

  it("C138: a ledger that is gone whole is made again from its mirror", async () => {
    await write([newId("session"), newId("session")], 100);
    await copies.project();
    const before = await copies.stored();
    await copies.whileStopped((store) => rm(store, { recursive: true }));
    expect((await standingOf(await copies.connect("setup"), copies.mirror)).status).to.equal("behind");
    expect(await repair()).to.deep.equal({ messages: 200, lost: [] });
    expect(await copies.stored()).to.deep.equal(before);
    expect(await verify()).to.deep.include({ messages: 200, mirrored: 200, faults: [] });
  });

  it("C138: refuses to put anything back once something was written in its place, and names where", async () => {
    const sessions = [newId("session"), newId("session")];
    const last = await write(sessions, 3);
    await copies.keep("old");
    await write(sessions, 3, new Map(last));
    await copies.project();
    await copies.rollBack("old");
    await write([newId("session")], 2);
    expect(await failureFrom(() => start())).to.include({ code: "ledger_diverged" });
    const refusal = await failureFrom(async () => planRepair(await parts()));
    expect(refusal).to.include({ code: "ledger_diverged" });
    expect(String(refusal)).to.contain("from sequence 7 on");
    const { faults } = await verify();
    const seen = sessions.map((session) => faults.find((fault) => fault.session === session));
    expect(seen.map((fault) => [fault?.sequence, fault?.code])).to.deep.equal([
      [7, "missing_in_ledger"],
      [8, "missing_in_ledger"],
    ]);
  });

  it("C138: goes on with a repair that died on its way", async () => {
    await copies.keep("old");
    await write([newId("session")], 300);
    await copies.project();
    await copies.rollBack("old");
    const plan = await planRepair(await parts());
    if (plan === undefined) throw new Error("Nothing to repair");
    const death = new Error("the process dies here");
    const dies = async () =>
      repairLedger(await parts(), plan, () => {
        throw death;
      });
    expect(await failureFrom(dies)).to.equal(death);
    expect((await standingOf(await copies.connect("setup"), copies.mirror)).ledger).to.equal(64);
    expect(await repair()).to.deep.equal({ messages: 236, lost: [] });
    expect(await verify()).to.deep.include({ messages: 300, faults: [] });
  });

  it("C138: puts nothing back into a wrong place when someone writes during the repair", async () => {
    await copies.keep("old");
    await write([newId("session")], 10);
    await copies.project();
    await copies.rollBack("old");
    const plan = await planRepair(await parts());
    if (plan === undefined) throw new Error("Nothing to repair");
    await write([newId("session")], 1);
    expect(await failureFrom(async () => repairLedger(await parts(), plan, IGNORED))).to.include({
      code: "ledger_written_to",
    });
    expect(await copies.stored()).to.have.length(1);
  });

  it("C138: keeps the place of a message that is in no copy any more, and says that it is lost", async () => {
    const sessions = [newId("session"), newId("session")];
    const last = await write(sessions, 5);
    await copies.keep("old");
    await write(sessions, 5, last);
    await copies.project();
    await copies.database.pool.query("delete from ledger_message where sequence = 18");
    await copies.database.pool.query("delete from ledger_message where sequence = 20");
    await copies.rollBack("old");
    expect(await repair()).to.deep.equal({ messages: 8, lost: [18] });
    const { faults, lost, messages } = await verify();
    expect({ faults, lost, messages }).to.deep.equal({ faults: [], lost: [18], messages: 18 });
  });

  it("C138: consumers that the server forgets are made anew, without a gap or a repeat", async () => {
    const session = newId("session");
    const last = await write([session], 5);
    const nats = await copies.connect("brain");
    const feed = openLedgerFeed({ nats, shards: copies.shards, blobs: copies.blobs, log: silentLog });
    const stop = new AbortController();
    const following = feed.follow({ after: 0, session, signal: stop.signal })[Symbol.asyncIterator]();
    const seen: number[] = [];
    const read = async (count: number) => {
      for (; count > 0; count--) {
        const { value } = await following.next();
        seen.push(value.sequence);
      }
    };
    await read(5);
    const manager = await (await copies.connect("setup")).jetstreamManager();
    for (const { name } of await manager.consumers.list(LEDGER_STREAM).next())
      if (name.startsWith("follow_")) await manager.consumers.delete(LEDGER_STREAM, name);
    await write([session], 5, last);
    await read(5);
    stop.abort();
    expect(seen).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it("C138: a consumer that meets a break of a chain raises an alarm, and none when messages come again", async () => {
    const [session, other] = [newId("session"), newId("session")];
    const first = await write([session, other], 3);
    const last = first.get(session);
    const forged = await encodeMessage(
      "gateway",
      {
        session,
        expected: { sequence: last?.sequence ?? 0, hash: "0".repeat(64) },
        events: [posted("after a lost one")],
        cause: causeOf(session),
      },
      copies.blobs,
    );
    const subject = ledgerSubject(session, copies.shards);
    await (await copies.connect("gateway")).jetstream().publish(subject, forged.bytes, { msgID: forged.id });
    const alarms: object[] = [];
    const log = { ...silentLog, error: (fields: object) => void alarms.push(fields) };
    const nats = await copies.connect("brain");
    const feed = openLedgerFeed({ nats, shards: copies.shards, blobs: copies.blobs, log });
    const stop = new AbortController();
    await take(7, feed.follow({ after: 0, signal: stop.signal }));
    stop.abort();
    const done = Promise.withResolvers<void>();
    let seen = 0;
    let refused = false;
    const handle = async (messages: readonly LedgerMessage[]) => {
      if (!refused) {
        refused = true;
        throw new Retryable("not_yet", "Comes again", { retryAfterMs: 1 });
      }
      seen += messages.length;
      if (seen === 7) done.resolve();
    };
    const running = await feed.react({ consumer: "brain", handle });
    await done.promise;
    await running.close();
    const gap = { code: "ledger_gap", session, after: last?.sequence, sequence: 7, gaps: 1 };
    expect(alarms).to.have.length(2);
    for (const alarm of alarms) expect(alarm).to.deep.include(gap);
  });

  it("C138: names the first bad message of each session, and why", async () => {
    const sessions = [newId("session"), newId("session"), newId("session")];
    await write(sessions, 10);
    await copies.project();
    const { pool } = copies.database;
    await pool.query("delete from ledger_message where sequence in (4, 10)");
    await pool.query("update ledger_message set message = message || ' '::bytea where sequence = 8");
    const { faults, faultySessions } = await verify();
    expect(faultySessions).to.equal(2);
    expect(faults.map(({ session, sequence, code }) => ({ session, sequence, code }))).to.deep.equal([
      { session: sessions[0], sequence: 4, code: "missing_in_mirror" },
      { session: sessions[1], sequence: 8, code: "copies_differ" },
    ]);
    expect((await verify(sessions[2])).faults).to.deep.equal([]);
  });
});
