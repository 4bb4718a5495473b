// The relay's admin endpoints, as far as the scheduler uses them. The relay gets a token's hash only.
import { JOIN_TOKEN_LIFE_MS_MAX, type JoinTokenRegistration, relayPaths } from "#schemas/wire/relay-http.ts";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newSecret, sha256 } from "#shared/ids/ids.ts";

export type Relay = Readonly<{ url: string; adminKey: string }>;
export type JoinToken = Readonly<{ token: string; expiresAt: string }>;

const REQUEST_MS_MAX = 5_000;
const RETRY_AFTER_MS = 1_000;

/**
 * A token that works once, for this life of this sandbox, and no longer than its request is waited for: a task that its
 * provider comes to later would begin a life beside that of the next request, whose own task then ends it under a command
 * (I7). Resolves when the relay knows its hash.
 */
export async function newJoinToken(
  relay: Relay,
  sandbox: { sandboxId: string; generation: number },
  { now, requestMs }: { now: number; requestMs: number },
): Promise<JoinToken> {
  const token = newSecret();
  const expiresAt = new Date(now + Math.min(requestMs, JOIN_TOKEN_LIFE_MS_MAX)).toISOString();
  const { sandboxId, generation } = sandbox;
  const registration: JoinTokenRegistration = { sandboxId, generation, tokenHash: sha256(token), expiresAt };
  step("scheduler.token.registering");
  await ask(relay, { method: "POST", path: relayPaths.joinTokens, body: registration });
  step("scheduler.token.registered");
  return { token, expiresAt };
}

/** The sandbox's tokens and passes work no more. One that the relay does not know is a success. */
export async function revokePasses(relay: Relay, sandboxId: string): Promise<void> {
  step("scheduler.passes.revoking");
  await ask(relay, { method: "DELETE", path: relayPaths.sandbox(sandboxId) });
  step("scheduler.passes.revoked");
}

type Question = Readonly<{ method: "POST" | "DELETE"; path: string; body?: object }>;

async function ask(relay: Relay, { method, path, body }: Question): Promise<void> {
  const response = await fetch(new URL(path, relay.url), {
    method,
    headers: { authorization: `Bearer ${relay.adminKey}`, "content-type": "application/json" },
    signal: AbortSignal.timeout(REQUEST_MS_MAX),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw unreachable(`The relay at ${relay.url} does not answer`, cause);
  });
  const text = await response.text();
  if (response.ok || (method === "DELETE" && response.status === 404)) return;
  if (response.status >= 500 || response.status === 429) throw unreachable(`The relay answers ${response.status}`);
  throw new Fatal("relay_refused", `The relay refuses ${method} ${path}: ${response.status} ${text.slice(0, 300)}`, {
    next: "See that scheduler and relay have the same PISTIS_RELAY_KEY and about the same clock.",
  });
}

function unreachable(message: string, cause?: unknown): Retryable {
  return new Retryable("relay_unreachable", message, {
    cause,
    retryAfterMs: RETRY_AFTER_MS,
    next: "See that the relay runs.",
  });
}
