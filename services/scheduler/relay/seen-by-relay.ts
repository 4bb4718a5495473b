import { relayPaths, type SandboxStatus, sandboxStatus } from "#schemas/wire/relay-http.ts";
import type { Relay } from "./join-tokens.ts";

const ANSWER_MS_MAX = 1_000;

/** What the relay sees of a sandbox; undefined when it does not know it or does not answer. */
export async function seenByRelay(relay: Relay, sandboxId: string): Promise<SandboxStatus | undefined> {
  try {
    const response = await fetch(new URL(relayPaths.sandbox(sandboxId), relay.url), {
      headers: { authorization: `Bearer ${relay.adminKey}` },
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    const answer: unknown = await response.json();
    return response.ok ? sandboxStatus.parse(answer) : undefined;
  } catch (error) {
    if (isSilence(error)) return undefined;
    throw error;
  }
}

/** fetch says TypeError for a connection that failed and TimeoutError when the time was over. */
function isSilence(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof DOMException && error.name === "TimeoutError");
}
