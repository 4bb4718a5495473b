import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NatsConnection } from "nats";
import { PARKED_STREAM } from "#schemas/ledger/subjects.ts";
import { openBlobs } from "#shared/blobs/blobs.ts";
import type { Parked } from "#shared/ledger/delivery.ts";
import { describeLedger, type LedgerUnderTest } from "#shared/ledger/ledger.contract.ts";
import { RecentMessages } from "#shared/ledger/recent.ts";
import { silentLog } from "#shared/service/log.ts";
import { startTestNats } from "#shared/testing/nats.ts";
import { openLedgerFeed } from "./jetstream-feed.ts";
import { openLedger } from "./jetstream-ledger.ts";

describeLedger("JetStream", () => open({}));
describeLedger("JetStream, with all who write in one process", () => {
  return open({ recent: new RecentMessages({ hearsAll: true }) });
});
describeLedger("JetStream, with a batch out at once", () => open({}, "projector"));

async function open(
  shared: { recent?: RecentMessages },
  consumer: "brain" | "projector" = "brain",
): Promise<LedgerUnderTest> {
  const folder = await mkdtemp(join(tmpdir(), "pistis-ledger-"));
  const blobs = openBlobs(folder);
  const nats = await startTestNats();
  const { shards } = nats;
  const connections = {
    gateway: await nats.connect("gateway"),
    brain: await nats.connect("brain"),
    scheduler: await nats.connect("scheduler"),
    publisher: await nats.connect("publisher"),
  };
  const setup = await nats.connect("setup");
  const reacting = consumer === "brain" ? connections.brain : await nats.connect(consumer);
  const feedOf = (connection: NatsConnection) =>
    openLedgerFeed({ nats: connection, shards, blobs, log: silentLog, ...shared });
  return {
    open: (writer) => openLedger({ nats: connections[writer], writer, shards, blobs, ...shared }),
    feed: { follow: feedOf(connections.brain).follow, react: feedOf(reacting).react },
    consumer,
    parked: async () => {
      const manager = await setup.jetstreamManager();
      const { state } = await manager.streams.info(PARKED_STREAM);
      const parked: Parked[] = [];
      for (let seq = 1; seq <= state.last_seq; seq++) {
        parked.push((await manager.streams.getMessage(PARKED_STREAM, { seq })).json<Parked>());
      }
      return parked;
    },
    close: async () => {
      await nats.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
