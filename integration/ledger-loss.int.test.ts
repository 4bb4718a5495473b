// A nats-server that comes back without its tail while services run: they find out as soon as it is there again, and
// write nothing until it is repaired.
import { expect } from "chai";
import { Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { type Ledger, NEW_SESSION } from "#shared/ledger/ledger.ts";
import { openLedgerAndFeed } from "#shared/nats/access.ts";
import { planRepair, repairLedger } from "#shared/nats/ledger/repair.ts";
import { silentLog } from "#shared/service/log.ts";
import { appendMany, causeOf, failureFrom, lastOf, posted, versionOf } from "#shared/testing/messages.ts";
import { openTwoCopies, type TwoCopies } from "./testing/two-copies.ts";

describe("a running service whose ledger loses its tail", function () {
  this.timeout(60_000);
  let copies: TwoCopies;
  beforeEach(async () => {
    copies = await openTwoCopies();
  });
  afterEach(() => copies.close());

  async function runningLedger(mirror = copies.mirror, log = silentLog): Promise<Ledger> {
    const { shards, blobs } = copies;
    const nats = await copies.connectForGood("gateway");
    return (await openLedgerAndFeed({ nats, writer: "gateway", shards, blobs, mirror, log })).ledger;
  }

  /** Once `hang` was called, it answers no more. */
  function hangingMirror() {
    const asked = Promise.withResolvers<void>();
    let hangs = false;
    const lastUpTo = (sequence?: number) => {
      if (!hangs) return copies.mirror.lastUpTo(sequence);
      asked.resolve();
      return new Promise<never>(() => undefined);
    };
    const hang = () => {
      hangs = true;
    };
    return { mirror: { ...copies.mirror, lastUpTo }, hang, asked: asked.promise };
  }

  async function repair(): Promise<void> {
    const { shards, blobs, mirror } = copies;
    const parts = { nats: await copies.connect("setup"), shards, blobs, mirror };
    const plan = await planRepair(parts);
    if (plan !== undefined) await repairLedger(parts, plan, () => undefined);
  }

  const append = (ledger: Ledger, session: string) =>
    ledger.append(session, NEW_SESSION, [posted("new")], causeOf(session));

  it("C138: appends nothing after the loss, says why, and goes on after the repair", async () => {
    const ledger = await runningLedger();
    const session = newId("session");
    const first = await appendMany(ledger, session, 3);
    await copies.keep("old");
    const last = lastOf(await appendMany(ledger, session, 3, lastOf(first)));
    await copies.project();
    await copies.rollBack("old");
    // A new session expects nothing: the server itself would take it, in the place of what was lost.
    const failure = await failureFrom(() => append(ledger, newId("session")));
    expect(failure).to.include({ code: "ledger_behind_mirror" });
    expect(failure).to.have.property("next").that.contains("pistis ledger repair");
    await repair();
    for (;;) {
      const again = await failureFrom(() => append(ledger, newId("session")));
      if (again === undefined) break;
      expect(again).to.include({ code: "ledger_behind_mirror" });
      await new Promise(setImmediate);
    }
    const next = await ledger.append(session, versionOf(last), [posted("on")], causeOf(session));
    expect(next.prev).to.equal(last.hash);
  });

  it("goes on at once when the server comes back with all that it had", async () => {
    const ledger = await runningLedger();
    const session = newId("session");
    const [message] = await appendMany(ledger, session, 1);
    await copies.project();
    await copies.whileStopped(async () => undefined);
    if (message === undefined) throw new Error("Nothing was appended");
    expect(await ledger.append(session, versionOf(message), [posted("on")], causeOf(session))).to.include({
      prev: message.hash,
    });
  });

  it("C138: appends nothing where its own last message was, also while PostgreSQL does not answer", async () => {
    const { mirror } = copies;
    let isAway = false;
    const lastUpTo = async (sequence?: number) => {
      if (isAway) throw new Retryable("database_unavailable", "It is away", { retryAfterMs: 1_000 });
      return mirror.lastUpTo(sequence);
    };
    const ledger = await runningLedger({ ...mirror, lastUpTo });
    const session = newId("session");
    const first = await appendMany(ledger, session, 3);
    await copies.keep("old");
    const last = lastOf(await appendMany(ledger, session, 3, lastOf(first)));
    await copies.project();
    isAway = true;
    await copies.rollBack("old");
    expect(await failureFrom(() => append(ledger, newId("session")))).to.include({ code: "ledger_tail_lost" });
    isAway = false;
    await repair();
    while ((await failureFrom(() => append(ledger, newId("session")))) !== undefined) {
      await new Promise(setImmediate);
    }
    const next = await ledger.append(session, versionOf(last), [posted("on")], causeOf(session));
    expect(next.prev).to.equal(last.hash);
  });

  it("C138: appends nothing where its own last message was, also while PostgreSQL hangs", async () => {
    const { mirror, hang } = hangingMirror();
    const ledger = await runningLedger(mirror);
    await copies.keep("old");
    await appendMany(ledger, newId("session"), 3);
    hang();
    await copies.rollBack("old");
    expect(await failureFrom(() => append(ledger, newId("session")))).to.include({ code: "ledger_tail_lost" });
  });

  it("C138: a check that the next break of the connection overtook lets nothing through", async () => {
    const { mirror, hang, asked } = hangingMirror();
    const gaveUp = Promise.withResolvers<void>();
    const ledger = await runningLedger(mirror, { ...silentLog, warn: () => gaveUp.resolve() });
    await copies.keep("old");
    await appendMany(ledger, newId("session"), 3);
    hang();
    await copies.whileStopped(async () => undefined);
    await asked;
    await copies.rollBack("old", gaveUp.promise);
    expect(await failureFrom(() => append(ledger, newId("session")))).to.include({ code: "ledger_tail_lost" });
  });

  it("C138: appends nothing where its own last message was, also when the mirror had not got it yet", async () => {
    const ledger = await runningLedger();
    const [first] = await appendMany(ledger, newId("session"), 1);
    await copies.project();
    await copies.keep("old");
    await appendMany(ledger, newId("session"), 3);
    await copies.rollBack("old");
    for (let time = 0; time < 2; time++) {
      const failure = await failureFrom(() => append(ledger, newId("session")));
      expect(failure).to.include({ code: "ledger_tail_lost" });
      expect(failure).to.have.property("next").that.contains("start this service again");
    }
    const restarted = await runningLedger();
    expect(await append(restarted, newId("session"))).to.have.property("sequence", (first?.sequence ?? 0) + 1);
  });

  it("goes on without PostgreSQL when the server comes back with all that it had", async () => {
    const { mirror } = copies;
    let isAway = false;
    const lastUpTo = (sequence?: number) =>
      isAway
        ? Promise.reject(new Retryable("database_unavailable", "It is away", { retryAfterMs: 1_000 }))
        : mirror.lastUpTo(sequence);
    const ledger = await runningLedger({ ...mirror, lastUpTo });
    const [message] = await appendMany(ledger, newId("session"), 1);
    isAway = true;
    await copies.whileStopped(async () => undefined);
    expect(await append(ledger, newId("session"))).to.have.property("sequence", (message?.sequence ?? 0) + 1);
  });
});
