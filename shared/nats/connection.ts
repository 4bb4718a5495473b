import { connect, type NatsConnection, nkeyAuthenticator } from "nats";
import { Retryable } from "#shared/errors/errors.ts";
import { signNatively } from "./ed25519.ts";
import type { NatsUser } from "./keys.ts";
import { quietClose } from "./quiet-close.ts";

export type { NatsConnection } from "nats";

signNatively();

/** One that is away refuses at once; one that is there may be slow while a whole install starts on few cores. */
const CONNECT_MS = 15_000;
const RECONNECT_WAIT_MS = 100;
const PING_INTERVAL_MS = 15_000;

/** A server may be away for as long as it likes, and may refuse its users until its keys are put right. */
export const FOR_EVER = {
  reconnect: true,
  maxReconnectAttempts: -1,
  reconnectTimeWait: RECONNECT_WAIT_MS,
  ignoreAuthErrorAbort: true,
};

/**
 * Connects as one user. A lost connection is mended by itself, for ever: requests made meanwhile fail or wait for
 * their own time-outs. Throws a Retryable `nats_unreachable`.
 */
export async function connectNats(options: {
  url: string;
  user: NatsUser;
  seed: string;
  /** Shown in the server's own lists of connections. */
  name: string;
}): Promise<NatsConnection> {
  try {
    const connection = await connect({
      servers: options.url,
      name: options.name,
      authenticator: nkeyAuthenticator(new TextEncoder().encode(options.seed)),
      inboxPrefix: `_INBOX_${options.user}`,
      timeout: CONNECT_MS,
      ...FOR_EVER,
      pingInterval: PING_INTERVAL_MS,
      noAsyncTraces: true,
    });
    return quietClose(connection);
  } catch (cause) {
    throw new Retryable("nats_unreachable", `${options.user} cannot connect to NATS at ${options.url}`, {
      cause,
      retryAfterMs: 1_000,
      next: "See that nats-server runs there and knows this user's key (NATS_URL, or the state directory of pistis dev).",
    });
  }
}
