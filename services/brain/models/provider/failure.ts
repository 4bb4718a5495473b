// What a provider's refusals and break-downs mean, as our own errors: a Retryable may be tried again, a Refusal
// needs a person. Every code starts with `model_`.
import { APICallError } from "@ai-sdk/provider";
import { z } from "zod";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { MODEL_OVERFLOW } from "../model.ts";

const MESSAGE_CHARACTERS_MAX = 1_000;
const RETRY_AFTER_MS_MAX = 60_000;
const OVERLOADED = 529;
const CONTEXT = /context[ _](length|window)|prompt is too long|maximum context|too many tokens/i;

const providerError = z.object({ error: z.object({ code: z.string().nullish(), type: z.string().nullish() }) });

export type Named = Readonly<{ name: string }>;

export function modelFailure(error: unknown, { name }: Named): Refusal | Retryable {
  if (error instanceof Refusal || error instanceof Retryable) return error;
  if (APICallError.isInstance(error)) return apiFailure(error, name);
  const message = error instanceof Error ? error.message : String(error);
  return brokenOff(`The connection to ${name} broke: ${message}`, error);
}

export function brokenOff(message: string, cause?: unknown): Retryable {
  return new Retryable("model_connection", message.slice(0, MESSAGE_CHARACTERS_MAX), {
    cause,
    retryAfterMs: 0,
    next: "Post a message to go on. If it happens again, check the network and the model's baseUrl.",
  });
}

export function silent(name: string, afterMs: number): Retryable {
  return new Retryable("model_silent", `${name} said nothing for ${afterMs} ms, so the request was given up`, {
    retryAfterMs: 0,
    next: "Post a message to go on from here. limits.modelSilenceMs in pistis.json sets the limit.",
  });
}

function apiFailure(error: APICallError, name: string): Refusal | Retryable {
  const { statusCode: status } = error;
  const message = `${name}: ${error.message}`.slice(0, MESSAGE_CHARACTERS_MAX);
  const refusal = (code: string, next: string) => new Refusal(code, message, { cause: error, next });
  if (status === undefined || status < 400) return brokenOff(message, error);
  if (status === 401 || status === 403) {
    return refusal("model_auth", "Check the apiKey of this model in pistis.json and the account's rights.");
  }
  if (status === 404) return refusal("model_not_found", "Check model and baseUrl of this model in pistis.json.");
  if (isContextOverflow(error)) {
    return refusal(MODEL_OVERFLOW, "Start a new session, or choose a model with a larger context.");
  }
  if (status === 429 && errorCode(error) === "insufficient_quota") {
    return refusal("model_quota", "The account's quota is used up: raise it at the provider.");
  }
  if (status === 429) return retryable(error, "model_rate_limited", message);
  if (status === OVERLOADED || status === 503) return retryable(error, "model_overloaded", message);
  if (status >= 500 || status === 408) return retryable(error, "model_unavailable", message);
  return refusal("model_refused", "The provider did not accept the request; its message says why.");
}

function retryable(error: APICallError, code: string, message: string): Retryable {
  const next = "Post a message to try again later.";
  return new Retryable(code, message, { cause: error, next, retryAfterMs: retryAfterMs(error.responseHeaders) });
}

/** What the provider asked for, in milliseconds; 0 when it did not say. */
export function retryAfterMs(headers: Record<string, string> | undefined): number {
  const milliseconds = Number(headers?.["retry-after-ms"] ?? Number.NaN);
  const after = headers?.["retry-after"];
  const seconds = Number(after ?? Number.NaN);
  const date = after === undefined ? Number.NaN : Date.parse(after) - Date.now();
  const asked = [milliseconds, seconds * 1_000, date].find((value) => Number.isFinite(value)) ?? 0;
  return Math.min(Math.max(0, asked), RETRY_AFTER_MS_MAX);
}

function isContextOverflow(error: APICallError): boolean {
  if (error.statusCode === 413 || errorCode(error) === "context_length_exceeded") return true;
  return error.statusCode === 400 && CONTEXT.test(error.message);
}

function errorCode(error: APICallError): string | undefined {
  const parsed = providerError.safeParse(error.data);
  return parsed.success ? (parsed.data.error.code ?? parsed.data.error.type ?? undefined) : undefined;
}
