// How far each service has come with the ledger, by sequence, as the server knows it.
import { type NatsConnection, NatsError } from "nats";
import { LEDGER_STREAM, PARKED_STREAM } from "#schemas/ledger/subjects.ts";
import { ledgerConsumer, REACTORS } from "../permissions.ts";
import { unavailable } from "./stream-reader.ts";

export type ConsumerLag = Readonly<{
  service: string;
  shard: number;
  /** Of the last message that was handed out. */
  delivered: number;
  /** Everything up to here is handled. */
  acknowledged: number;
  /** Messages that are not handled yet: those that wait, and the one that is out. */
  lag: number;
  /** Handed out and not acknowledged. */
  out: number;
  /** Of those that are out, delivered more than once. */
  redelivered: number;
  /** Replicas that ask for messages. None, with nothing out: nobody works on it. */
  listening: number;
}>;

export type LedgerLag = Readonly<{ lastSequence: number; consumers: readonly ConsumerLag[] }>;

/** As the user `setup`. Throws a Retryable `ledger_unavailable`. */
export async function readLag(nats: NatsConnection, shards: number): Promise<LedgerLag> {
  try {
    const manager = await nats.jetstreamManager({ checkAPI: false });
    const { state } = await manager.streams.info(LEDGER_STREAM);
    const wanted = REACTORS.flatMap((service) => Array.from({ length: shards }, (_, shard) => ({ service, shard })));
    const consumers = wanted.map(async ({ service, shard }): Promise<ConsumerLag> => {
      const info = await manager.consumers.info(LEDGER_STREAM, ledgerConsumer(service, shard));
      return {
        service,
        shard,
        delivered: info.delivered.stream_seq,
        acknowledged: info.ack_floor.stream_seq,
        lag: info.num_pending + info.num_ack_pending,
        out: info.num_ack_pending,
        redelivered: info.num_redelivered,
        listening: info.num_waiting,
      };
    });
    return { lastSequence: state.last_seq, consumers: await Promise.all(consumers) };
  } catch (cause) {
    if (cause instanceof NatsError) throw unavailable(`The ledger's consumers cannot be read: ${cause.message}`, cause);
    throw cause;
  }
}

/** How much each consumer of the connection's account gave up: `<stream>.<consumer>` and how many. */
export async function countParked(nats: NatsConnection): Promise<ReadonlyMap<string, number>> {
  try {
    const manager = await nats.jetstreamManager({ checkAPI: false });
    const { state } = await manager.streams.info(PARKED_STREAM, { subjects_filter: ">" });
    return new Map(
      Object.entries(state.subjects ?? {}).map(([subject, count]) => [subject.replace(/^parked\./, ""), count]),
    );
  } catch (cause) {
    if (cause instanceof NatsError) throw unavailable(`What was parked cannot be counted: ${cause.message}`, cause);
    throw cause;
  }
}
