import { AckPolicy, type ConsumerConfig, DeliverPolicy, nanos } from "nats";
import { ledgerShardSubject } from "#schemas/ledger/subjects.ts";

/** How long a replica that died keeps its shards from the others. A living one renews well before. */
export const ACK_WAIT_MS = 3_000;

/**
 * The durable consumer of one service on one shard. Only one message is out at a time, over all replicas, and
 * nothing after it is given to anyone until it is acknowledged: that keeps the order also when a replica dies
 * with a message in hand. Whoever has it reads what follows directly from the stream to make a batch.
 */
export function ledgerConsumerConfig(name: string, shard: number): Partial<ConsumerConfig> & { durable_name: string } {
  return {
    durable_name: name,
    filter_subject: ledgerShardSubject(shard),
    deliver_policy: DeliverPolicy.All,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_ack_pending: 1,
    max_deliver: -1,
  };
}
