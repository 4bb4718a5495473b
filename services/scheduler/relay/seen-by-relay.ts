// Asked for the warm pool only, which does without an answer: nothing that the relay, or a proxy before it, says fails.
import { relayPaths, type SandboxStatus, sandboxStatus } from "#schemas/wire/relay-http.ts";
import type { Relay } from "./join-tokens.ts";

const ANSWER_MS_MAX = 1_000;

/** What the relay sees of a sandbox; undefined when it does not know it, does not answer or answers something else. */
export async function seenByRelay(relay: Relay, sandboxId: string): Promise<SandboxStatus | undefined> {
  try {
    const response = await fetch(new URL(relayPaths.sandbox(sandboxId), relay.url), {
      headers: { authorization: `Bearer ${relay.adminKey}` },
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    if (response.ok) return sandboxStatus.safeParse(await response.json()).data;
    await response.body?.cancel();
    return undefined;
  } catch (error) {
    if (isSilence(error)) return undefined;
    throw error;
  }
}

/** fetch says TypeError for a connection that failed, SyntaxError for no JSON and TimeoutError when the time was over. */
function isSilence(error: unknown): boolean {
  if (error instanceof TypeError || error instanceof SyntaxError) return true;
  return error instanceof DOMException && error.name === "TimeoutError";
}
