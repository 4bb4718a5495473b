import { expect } from "chai";
import type { JetStreamManager } from "nats";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import type { NatsConnection } from "./connection.ts";
import { prepareNats } from "./setup.ts";

const SHARDS = 2;
const LEASE_TTL_MS = 5_000;

describe("what set-up makes in NATS", () => {
  let nats: TestNats;
  let core: NatsConnection;
  let edge: NatsConnection;
  let manager: JetStreamManager;
  before(async () => {
    nats = await startTestNats({ shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    core = await nats.connect("setup");
    edge = await nats.connect("edge-setup");
    manager = await core.jetstreamManager();
  });
  after(() => nats.close());

  it("is made once: asking again changes nothing", async () => {
    const before = await everything();
    await prepareNats({ core, edge, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    expect(await everything()).to.deep.equal(before);
  });

  it("keeps the number of shards of the first start", async () => {
    const error = await prepareNats({ core, edge, shards: SHARDS + 1 }).catch((reason: unknown) => reason);
    expect(error).to.include({ code: "ledger_shards_fixed" });
    expect(error).to.have.property("next").that.includes("ledger.shards");
  });

  it("is a ledger on disk without limits, from which not even set-up deletes a message", async () => {
    const { seq } = await core.jetstream().publish("ledger.0.ses_a", "kept");
    const { config } = await manager.streams.info("LEDGER");
    expect(config).to.include({ storage: "file", max_age: 0, max_bytes: -1, max_msgs: -1, retention: "limits" });
    for (const attempt of [() => manager.streams.purge("LEDGER"), () => manager.streams.deleteMessage("LEDGER", seq)]) {
      expect(await attempt().catch((reason: unknown) => reason)).to.be.instanceOf(Error);
    }
    const loosened = manager.streams.update("LEDGER", { deny_delete: false, deny_purge: false });
    expect(await loosened.catch((reason: unknown) => reason)).to.be.instanceOf(Error);
    expect((await manager.streams.getMessage("LEDGER", { seq })).string()).to.equal("kept");
  });

  it("takes a changed time to live of the leases over", async () => {
    await prepareNats({ core, edge, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS * 2 });
    const { config } = await manager.streams.info("KV_leases");
    expect(config.max_age).to.equal(LEASE_TTL_MS * 2 * 1_000_000);
  });

  it("lets a batch out where an earlier version let one message out, and keeps the consumer's place", async () => {
    await core.jetstream().publish("ledger.0.ses_b", "handled");
    const pulled = await core.jetstream().consumers.get("LEDGER", "projector-0");
    const message = await pulled.next();
    await message?.ackAck();
    const { ack_floor } = await manager.consumers.info("LEDGER", "projector-0");
    await manager.consumers.update("LEDGER", "projector-0", { max_ack_pending: 1 });
    await prepareNats({ core, edge, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    const after = await manager.consumers.info("LEDGER", "projector-0");
    expect(after.config.max_ack_pending).to.equal(256);
    expect(after.ack_floor).to.include({ consumer_seq: ack_floor.consumer_seq, stream_seq: ack_floor.stream_seq });
    expect(ack_floor.consumer_seq).to.be.greaterThan(0);
    expect((await manager.consumers.info("LEDGER", "brain-0")).config.max_ack_pending).to.equal(1);
  });

  async function everything(): Promise<object[]> {
    const found: object[] = [];
    for (const connection of [core, edge]) {
      const streams = await connection.jetstreamManager();
      for await (const { config, created } of streams.streams.list()) {
        found.push({ config, created });
        for await (const consumer of streams.consumers.list(config.name)) {
          found.push({ config: consumer.config, created: consumer.created });
        }
      }
    }
    return found;
  }
});
