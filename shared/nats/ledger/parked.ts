// What consumers gave up, from the stream PARKED of the connection's account.
import { type NatsConnection, NatsError } from "nats";
import { z } from "zod";
import { PARKED_STREAM } from "#schemas/ledger/subjects.ts";
import { unavailable } from "./stream-reader.ts";

const parkedItem = z.looseObject({
  sequence: z.number().int().optional(),
  session: z.string().optional(),
  code: z.string().optional(),
  reason: z.string().optional(),
  next: z.string().optional(),
});

export type ParkedItem = Readonly<{
  stream: string;
  consumer: string;
  at: string;
  sequence: number;
  session: string;
  code: string;
  reason: string;
  next: string | undefined;
}>;

const NOT_FOUND = "404";

/** The oldest first. The stream keeps the last 10,000. */
export async function readParked(nats: NatsConnection): Promise<ParkedItem[]> {
  try {
    const manager = await nats.jetstreamManager({ checkAPI: false });
    const { state } = await manager.streams.info(PARKED_STREAM);
    const items: ParkedItem[] = [];
    for (let seq = state.first_seq; state.messages > 0 && seq <= state.last_seq; seq++) {
      const stored = await manager.streams.getMessage(PARKED_STREAM, { seq }).catch(noneThere);
      if (stored === undefined) continue;
      const [, stream = "", consumer = ""] = stored.subject.split(".");
      const item = parkedItem.safeParse(jsonOf(stored.data));
      const { sequence = 0, session = "", code = "unknown", reason = "", next } = item.data ?? {};
      items.push({ stream, consumer, at: stored.timestamp, sequence, session, code, reason, next });
    }
    return items;
  } catch (cause) {
    if (cause instanceof NatsError) throw unavailable(`What was parked cannot be read: ${cause.message}`, cause);
    throw cause;
  }
}

function noneThere(error: unknown): undefined {
  if (error instanceof NatsError && (error.code === NOT_FOUND || error.api_error?.code === 404)) return undefined;
  throw error;
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
