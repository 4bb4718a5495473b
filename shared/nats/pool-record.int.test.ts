import { expect } from "chai";
import { EMPTY_POOL, poolMemberOf } from "#schemas/scheduler/pool.ts";
import { newId } from "#shared/ids/ids.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openPoolRecord } from "./pool-record.ts";

describe("the warm pool's record", () => {
  let nats: TestNats;
  before(async () => {
    nats = await startTestNats();
  });
  after(() => nats.close());

  it("is empty at first, takes one of two replacements, and outlives the server", async () => {
    const [one, other] = await Promise.all(
      [0, 1].map(async () => openPoolRecord({ nats: await nats.connect("scheduler") })),
    );
    if (one === undefined || other === undefined) throw new Error("Two were opened");
    expect(await one.read()).to.deep.equal({ record: EMPTY_POOL, revision: 0 });
    const record = { ...EMPTY_POOL, members: [poolMemberOf(newId("session"))] };
    const taken = await Promise.all([one.replace(record, 0), other.replace(record, 0)]);
    expect(taken.filter(Boolean)).to.have.length(1);
    const { revision } = await other.read();
    expect(await one.replace(EMPTY_POOL, revision - 1)).to.equal(false);
    await nats.killAndStart();
    const again = await openPoolRecord({ nats: await nats.connect("scheduler") });
    expect(await again.read()).to.deep.equal({ record, revision });
    expect(await again.replace({ ...record, failuresInRow: 1 }, revision)).to.equal(true);
  });
});
