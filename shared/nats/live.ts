import { setTimeout as delay } from "node:timers/promises";
import type { NatsConnection } from "nats";
import { liveSessionSubject, liveSubject } from "#schemas/ledger/subjects.ts";
import { type LiveMessage, liveMessage } from "#schemas/live/live.ts";
import { type Coalescer, coalescer } from "#shared/live/coalesce.ts";
import type { LivePublisher, LiveSubscriber } from "#shared/live/live.ts";

/** How long deltas of one kind are gathered into one message. */
const GATHER_MS = 15;
/** How long a stop waits for the last of it: a server that hangs never takes it. */
const LAST_MS = 2_000;

/**
 * Publishes what was gathered every 15 ms. The numbers of the messages are its own: one per message sent, and one
 * for each that was dropped, so that a reader sees the gap. `nats` is a connection for nothing else.
 */
export function openLivePublisher(options: { nats: NatsConnection }): LivePublisher & { close: () => Promise<void> } {
  const gathered = coalescer();
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  // Until the server has taken what was sent, nothing more is handed to the socket; what does not fit is dropped.
  const flush = () => {
    timer = undefined;
    if (sending !== undefined) return plan();
    sending = send(options.nats, gathered).finally(() => {
      sending = undefined;
    });
  };
  const plan = () => {
    timer ??= setTimeout(flush, GATHER_MS);
  };
  return {
    publish(session, message) {
      gathered.add(session, message);
      plan();
    },
    async close() {
      clearTimeout(timer);
      const last = Promise.resolve(sending).then(() => send(options.nats, gathered));
      await Promise.race([last, delay(LAST_MS, undefined, { ref: false })]);
    },
  };
}

async function send(nats: NatsConnection, gathered: Coalescer): Promise<void> {
  const taken = gathered.take();
  if (nats.isClosed()) return;
  for (const { session, message } of taken) {
    nats.publish(liveSubject(session, message.kind), JSON.stringify(message));
  }
  // Live traffic need not last: what was in flight when the connection broke is a gap that its readers see.
  await nats.flush().catch(() => undefined);
}

/** `nats` is a connection for nothing else: a reader that is too slow loses this one only. */
export function openLiveSubscriber(options: { nats: NatsConnection }): LiveSubscriber {
  return {
    subscribe(session, onMessage) {
      const subscription = options.nats.subscribe(liveSessionSubject(session), {
        callback: (error, message) => {
          if (error !== null) return;
          const from = message.subject.split(".")[1];
          const parsed = read(message.data);
          if (parsed !== undefined && from !== undefined) onMessage(from, parsed);
        },
      });
      return () => subscription.unsubscribe();
    },
  };
}

function read(data: Uint8Array): LiveMessage | undefined {
  try {
    return liveMessage.parse(JSON.parse(new TextDecoder().decode(data)));
  } catch {
    return undefined;
  }
}
