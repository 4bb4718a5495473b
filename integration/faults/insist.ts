// Asking the gateway until it answers, whatever is done to it meanwhile.
import { setTimeout as delay } from "node:timers/promises";
import { Refusal, Retryable } from "#shared/errors/errors.ts";

const RETRY_MS = 100;

/** The gateway may be away, or away just when it had stored the request: the same id makes a second try safe. */
export async function insist<T>(signal: AbortSignal | undefined, ask: () => Promise<T>): Promise<T | undefined> {
  while (signal?.aborted !== true) {
    try {
      return await ask();
    } catch (error) {
      // A 5xx arrives as a Refusal of the client too.
      const isAnswer = error instanceof Refusal && /^(no_open_turn|session_|message_|not_found)/.test(error.code);
      if (isAnswer) return undefined;
      if (!(error instanceof Refusal || error instanceof Retryable || isTimeout(error))) throw error;
      await delay(RETRY_MS);
    }
  }
  return undefined;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === "TimeoutError" || error.name === "AbortError");
}
