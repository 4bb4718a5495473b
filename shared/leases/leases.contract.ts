// Every implementation of leases runs this file. A behaviour that is not here is not promised.
import { expect } from "chai";
import type { Lease, Leases } from "./leases.ts";

export type LeasesUnderTest = Readonly<{
  ttlMs: number;
  /** Another holder's view of the same leases. */
  open: (holder: string) => Promise<Leases>;
  /** As if the holder's process had been stopped: it renews no more. */
  openMute: (holder: string) => Promise<{ leases: Leases; mute: () => Promise<void> }>;
}>;

export function describeLeases(name: string, start: () => Promise<LeasesUnderTest>): void {
  describe(`leases: ${name}`, () => {
    let under: LeasesUnderTest;
    let session: string;
    let sessions = 0;
    before(async () => {
      under = await start();
    });
    beforeEach(() => {
      sessions += 1;
      session = `ses_${sessions}`;
    });

    it("gives a session to one holder", async () => {
      const [first, second] = await Promise.all([under.open("a"), under.open("b")]);
      const lease = await taken(first, session);
      expect(await second.acquire(session)).to.equal(undefined);
      expect(await first.acquire(session)).to.equal(undefined);
      await lease.release();
    });

    it("keeps sessions apart", async () => {
      const leases = await under.open("a");
      const [one, other] = [await taken(leases, session), await taken(leases, `${session}x`)];
      await Promise.all([one.release(), other.release()]);
    });

    it("lets another take a session that was released, once and at once", async () => {
      const [first, second] = await Promise.all([under.open("a"), under.open("b")]);
      const lease = await taken(first, session);
      await lease.release();
      await lease.release();
      const next = await taken(second, session);
      await lease.release();
      expect(await first.acquire(session)).to.equal(undefined);
      await next.release();
    });

    it("can be taken again by the holder that released it, and is then renewed", async () => {
      const [first, second] = await Promise.all([under.open("a"), under.open("b")]);
      await (await taken(first, session)).release();
      const lease = await taken(first, session);
      const until = performance.now() + under.ttlMs * 2;
      while (performance.now() < until) expect(await second.acquire(session)).to.equal(undefined);
      expect(lease.lost.aborted).to.equal(false);
      await lease.release();
      await (await taken(second, session)).release();
      await (await taken(first, session)).release();
    });

    it("is let go of at once also while it is being renewed", async () => {
      const [first, second] = await Promise.all([under.open("a"), under.open("b")]);
      for (let round = 0; round < 8; round++) {
        const lease = await taken(first, session);
        const renewal = performance.now() + under.ttlMs / 3 + round / 4;
        while (performance.now() < renewal) expect(await second.acquire(session)).to.equal(undefined);
        await lease.release();
        await (await taken(second, session)).release();
      }
    });

    it("has one winner when many want a session", async () => {
      const holders = await Promise.all(Array.from({ length: 10 }, (_, index) => under.open(`h${index}`)));
      for (let round = 0; round < 5; round++) {
        const won = (await Promise.all(holders.map((leases) => leases.acquire(session)))).filter((lease) => lease);
        expect(won).to.have.length(1);
        await won[0]?.release();
      }
    });

    it("is renewed for as long as its holder lives", async () => {
      const [first, second] = await Promise.all([under.open("a"), under.open("b")]);
      const lease = await taken(first, session);
      const until = performance.now() + under.ttlMs * 3;
      while (performance.now() < until) expect(await second.acquire(session)).to.equal(undefined);
      expect(lease.lost.aborted).to.equal(false);
      await lease.release();
    });

    it("is lost by a holder that cannot renew before another can take it", async () => {
      const [{ leases, mute }, second] = await Promise.all([under.openMute("a"), under.open("b")]);
      const lease = await taken(leases, session);
      await mute();
      const next = await eventually(() => second.acquire(session));
      expect(lease.lost.aborted).to.equal(true);
      expect(lease.lost.reason).to.have.property("code", "lease_lost");
      await next.release();
    });
  });
}

async function taken(leases: Leases, session: string): Promise<Lease> {
  const lease = await leases.acquire(session);
  if (lease === undefined) throw new Error(`${session} is held by someone else`);
  return lease;
}

async function eventually(ask: () => Promise<Lease | undefined>): Promise<Lease> {
  for (;;) {
    const lease = await ask();
    if (lease !== undefined) return lease;
  }
}
