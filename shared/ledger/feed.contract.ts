import { expect } from "chai";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { appendMany, causeOf, lastOf, posted, take, textsOf, versionOf } from "#shared/testing/messages.ts";
import type { LedgerUnderTest } from "./ledger.contract.ts";
import type { Ledger, LedgerMessage } from "./ledger.ts";

export function describeFollow(current: () => LedgerUnderTest): void {
  let gateway: Ledger;
  let stop: AbortController;
  beforeEach(() => {
    gateway = current().open("gateway");
    stop = new AbortController();
  });
  afterEach(() => stop.abort());

  it("gives every message of every session once and in order while writers append", async () => {
    const sessions = Array.from({ length: 5 }, () => newId("session"));
    const seen = take(100, current().feed.follow({ after: 0, signal: stop.signal }));
    await Promise.all(sessions.map((session) => appendMany(gateway, session, 20)));
    const messages = await seen;
    const sequences = messages.map(({ sequence }) => sequence);
    expect(sequences).to.deep.equal([...new Set(sequences)].sort((a, b) => a - b));
    for (const session of sessions) {
      const own = messages.filter((message) => message.session === session);
      expect(own).to.deep.equal((await gateway.read(session)).messages);
    }
  });

  it("goes on after any sequence without a gap or a repeat", async () => {
    const appended = await appendMany(gateway, newId("session"), 10);
    for (const [index, { sequence }] of appended.slice(0, -1).entries()) {
      const rest = await take(9 - index, current().feed.follow({ after: sequence, signal: stop.signal }));
      expect(rest).to.deep.equal(appended.slice(index + 1));
    }
  });

  it("narrows to one session", async () => {
    const [one, other] = [newId("session"), newId("session")];
    const seen = take(5, current().feed.follow({ after: 0, session: one, signal: stop.signal }));
    await appendMany(gateway, other, 5);
    const appended = await appendMany(gateway, one, 5);
    expect(await seen).to.deep.equal(appended);
  });

  it("gives only what comes when it is asked for now", async () => {
    const session = newId("session");
    const before = await appendMany(gateway, session, 3);
    const first = take(1, current().feed.follow({ after: "now", session, signal: stop.signal }));
    let done = false;
    const ended = first.finally(() => {
      done = true;
    });
    for (let version = versionOf(lastOf(before)); !done; ) {
      version = versionOf(await gateway.append(session, version, [posted("later")], causeOf(session)));
    }
    expect(textsOf(await ended)).to.deep.equal(["later"]);
  });

  it("ends when its signal aborts, also while it waits", async () => {
    const waiting = take(1, current().feed.follow({ after: 0, session: newId("session"), signal: stop.signal }));
    stop.abort();
    expect(await waiting).to.deep.equal([]);
  });
}

export function describeReact(current: () => LedgerUnderTest): void {
  let gateway: Ledger;
  beforeEach(() => {
    gateway = current().open("gateway");
  });

  it("hands out every message once and in order, in batches, when nothing fails", async () => {
    const before = await appendMany(gateway, newId("session"), 150);
    const seen: LedgerMessage[] = [];
    const batches: number[] = [];
    const all = Promise.withResolvers<void>();
    const running = await react(async (messages) => {
      seen.push(...messages);
      batches.push(messages.length);
      if (seen.length === 155) all.resolve();
    });
    const later = await appendMany(gateway, before[0]?.session ?? "", 5, versionOf(lastOf(before)));
    await all.promise;
    await running.close();
    expect(seen.map(({ sequence }) => sequence)).to.deep.equal([...before, ...later].map(({ sequence }) => sequence));
    expect(Math.max(...batches)).to.be.greaterThan(1);
  });

  it("leaves nothing out and keeps the order when it gathers what follows", async () => {
    const session = newId("session");
    const seen: number[] = [];
    const all = Promise.withResolvers<void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      seen.push(...messages.map(({ sequence }) => sequence));
      if (seen.length >= 40) all.resolve();
    };
    const running = await current().feed.react({ consumer: current().consumer, handle, gatherMs: 50 });
    const reading = take(40, current().feed.follow({ after: 0, session, signal: AbortSignal.timeout(60_000) }));
    const appended = await appendMany(gateway, session, 40);
    await Promise.all([reading, all.promise]);
    await running.close();
    expect(seen).to.deep.equal(appended.map(({ sequence }) => sequence));
  });

  it("goes on where it was closed", async () => {
    const session = newId("session");
    const [first, second] = await appendMany(gateway, session, 2);
    const seen = await untilHandled(2);
    const [third] = await appendMany(gateway, session, 1, versionOf(lastOf([first, second])));
    expect([...seen, ...(await untilHandled(1))]).to.deep.equal([first, second, third]);
  });

  it("hands a batch out again after a Retryable, before what follows it", async () => {
    const appended = await appendMany(gateway, newId("session"), 5);
    const handled: number[] = [];
    let failures = 0;
    const all = Promise.withResolvers<void>();
    const running = await react(async (messages) => {
      if (failures++ < 2) throw new Retryable("not_now", "Try again", { retryAfterMs: 5 });
      handled.push(...messages.map(({ sequence }) => sequence));
      if (handled.length === 5) all.resolve();
    });
    await all.promise;
    await running.close();
    expect(handled).to.deep.equal(appended.map(({ sequence }) => sequence));
    expect(failures).to.be.at.least(3);
    expect(await current().parked()).to.deep.equal([]);
  });

  it("parks the one message that cannot be handled, with the reason, and goes on with the others", async () => {
    const appended = await appendMany(gateway, newId("session"), 5);
    const bad = appended[2];
    const handled = new Set<number>();
    const all = Promise.withResolvers<void>();
    const running = await react(async (messages) => {
      if (messages.some(({ sequence }) => sequence === bad?.sequence)) throw new Fatal("cannot", "It does not work");
      for (const { sequence } of messages) handled.add(sequence);
      if (handled.size === 4) all.resolve();
    });
    await all.promise;
    await running.close();
    const parked = await current().parked();
    expect(parked).to.have.length(1);
    expect(parked[0]).to.include({ sequence: bad?.sequence, session: bad?.session, code: "cannot" });
    expect([...handled]).to.deep.equal(appended.filter((message) => message !== bad).map(({ sequence }) => sequence));
  });

  it("gives what a closed replica left undone to the next one", async () => {
    const [first] = await appendMany(gateway, newId("session"), 1);
    const tried = Promise.withResolvers<void>();
    const running = await react(async () => {
      tried.resolve();
      throw new Retryable("not_now", "Try much later", { retryAfterMs: 3_600_000 });
    });
    await tried.promise;
    await running.close();
    expect(await untilHandled(1)).to.deep.equal([first]);
  });

  it("hands each message to one of two replicas and keeps the order over both", async () => {
    const seen: number[] = [];
    const all = Promise.withResolvers<void>();
    const handle = async (messages: readonly LedgerMessage[]) => {
      seen.push(...messages.map(({ sequence }) => sequence));
      if (new Set(seen).size === 60) all.resolve();
    };
    const replicas = [await react(handle), await react(handle)];
    const appended = await appendMany(gateway, newId("session"), 60);
    await all.promise;
    await Promise.all(replicas.map((replica) => replica.close()));
    expect([...new Set(seen)]).to.deep.equal(appended.map(({ sequence }) => sequence));
  });

  function react(handle: (messages: readonly LedgerMessage[]) => Promise<void>) {
    return current().feed.react({ consumer: current().consumer, handle });
  }

  async function untilHandled(count: number): Promise<LedgerMessage[]> {
    const seen: LedgerMessage[] = [];
    const all = Promise.withResolvers<void>();
    const running = await react(async (messages) => {
      seen.push(...messages);
      if (seen.length >= count) all.resolve();
    });
    await all.promise;
    await running.close();
    return seen;
  }
}
