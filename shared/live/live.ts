// Live traffic that need not last, on its own connection. Publishing never waits: what a slow bus cannot take
// is dropped and shows as a gap in the numbers.
import type { LiveMessage } from "#schemas/live/live.ts";

export interface LivePublisher {
  publish(session: string, message: LiveMessage): void;
}

export interface LiveSubscriber {
  /** `session` "*" means all. Returns how to unsubscribe. Messages that do not fit the schema are dropped. */
  subscribe(session: string, onMessage: (session: string, message: LiveMessage) => void): () => void;
}
