import { expect } from "chai";
import { describeLeases } from "#shared/leases/leases.contract.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import { openLeases } from "./leases.ts";

const TTL_MS = 600;

describe("leases in JetStream", () => {
  let nats: TestNats;
  before(async () => {
    nats = await startTestNats({ leaseTtlMs: TTL_MS });
  });
  after(() => nats.close());

  describeLeases("JetStream", async () => ({
    ttlMs: TTL_MS,
    open: async (holder) => openLeases({ nats: await nats.connect("brain"), holder, ttlMs: TTL_MS }),
    openMute: async (holder) => {
      const connection = await nats.connect("brain");
      const leases = await openLeases({ nats: connection, holder, ttlMs: TTL_MS });
      return { leases, mute: () => connection.close() };
    },
  }));

  it("refuses a time to live that is not the install's", async () => {
    const opened = openLeases({ nats: await nats.connect("brain"), holder: "a", ttlMs: 1 }).catch((error) => error);
    expect(await opened).to.have.property("code", "lease_ttl");
  });
});
