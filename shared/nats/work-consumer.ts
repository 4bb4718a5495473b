// The one consumer of each kind of worker, as the server is told of it.
import { AckPolicy, type ConsumerConfig, DeliverPolicy, nanos } from "nats";
import { ACK_WAIT_MS, ATTEMPTS_MAX, type WorkQueue } from "./work-queues.ts";

const WORK_PENDING_MAX = 100_000;

export type WorkConsumer = Partial<ConsumerConfig> & { durable_name: string; max_ack_pending: number };

export function workConsumer({ consumer, filter, ackWaitMs = ACK_WAIT_MS }: WorkQueue): WorkConsumer {
  return {
    durable_name: consumer,
    filter_subject: filter,
    deliver_policy: DeliverPolicy.All,
    ack_wait: nanos(ackWaitMs),
    ack_policy: AckPolicy.Explicit,
    max_ack_pending: WORK_PENDING_MAX,
    max_deliver: ATTEMPTS_MAX + 1,
  };
}
