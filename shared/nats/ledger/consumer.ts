import { AckPolicy, type ConsumerConfig, DeliverPolicy, nanos } from "nats";
import { ledgerShardSubject } from "#schemas/ledger/subjects.ts";
import { ledgerConsumer, type Reactor } from "../permissions.ts";

/** How long a replica that died keeps its shards from the others. A living one renews well before. */
export const ACK_WAIT_MS = 3_000;

/** One batch, for a service whose replicas do not share a shard (window.ts). */
const WINDOWS: ReadonlyMap<string, number> = new Map([["projector", 256]]);

/** Messages of a shard that may be out at a time. */
export function windowOf(service: string): number {
  return WINDOWS.get(service) ?? 1;
}

/**
 * The durable consumer of one service on one shard. Where only one message is out at a time, over all replicas, nothing
 * after it is given to anyone until it is acknowledged: that keeps the order also when a replica dies with a message
 * in hand. Whoever has it reads what follows directly from the stream to make a batch. Where more are out, the replicas
 * see to the order themselves.
 */
export function ledgerConsumerConfig(
  service: Reactor,
  shard: number,
): Partial<ConsumerConfig> & { durable_name: string; max_ack_pending: number } {
  return {
    durable_name: ledgerConsumer(service, shard),
    filter_subject: ledgerShardSubject(shard),
    deliver_policy: DeliverPolicy.All,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_ack_pending: windowOf(service),
    max_deliver: -1,
  };
}
