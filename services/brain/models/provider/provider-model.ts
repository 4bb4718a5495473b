// A model of a real provider. The request is made again only while nothing of the reply was heard, and only the
// request: no tool call is ever repeated by this.
import { setTimeout as delay } from "node:timers/promises";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ModelConfig, PistisConfig } from "#schemas/config/pistis-config.ts";
import { Retryable } from "#shared/errors/errors.ts";
import { unlessAborted } from "#shared/errors/unless-aborted.ts";
import type { FinishReason, Model, ModelReply, ModelRequest } from "../model.ts";
import { costOf, usageOf } from "./cost.ts";
import { modelFailure, silent } from "./failure.ts";
import { openLanguageModel } from "./language-model.ts";
import { promptOf, withCacheBreakpoints } from "./prompt.ts";
import { ReplyReader } from "./reply-reader.ts";

export type ProviderConfig = Exclude<ModelConfig, { api: "script" }>;
type Limits = Pick<PistisConfig["limits"], "modelSilenceMs" | "modelRetriesMax">;
type Asked = Readonly<{ name: string; language: LanguageModelV4; config: ProviderConfig; limits: Limits }>;

const BACK_OFF_MS = 500;
const BACK_OFF_MS_MAX = 30_000;

/** Loads the provider's library; nothing is sent before the first request. */
export async function providerModel(name: string, config: ProviderConfig, limits: Limits): Promise<Model> {
  const asked = { name, config, limits, language: await openLanguageModel(config) };
  const { contextTokens, outputTokensMax } = config;
  return { name, window: { contextTokens, outputTokensMax }, request: (request) => requestWithRetries(asked, request) };
}

async function requestWithRetries(asked: Asked, request: ModelRequest): Promise<ModelReply> {
  for (let attempt = 0; ; attempt++) {
    const reader = new ReplyReader(request.onDelta);
    try {
      return await requestOnce(asked, request, reader);
    } catch (error) {
      request.signal.throwIfAborted();
      const failure = modelFailure(error, asked);
      const isFinal = reader.heard || failure.code === "model_silent" || attempt >= asked.limits.modelRetriesMax;
      if (isFinal || !(failure instanceof Retryable)) throw failure;
      const afterMs = Math.round(Math.max(failure.retryAfterMs, backOffMs(attempt, failure)));
      request.onRetry?.(failure.message, afterMs);
      await delay(afterMs, undefined, { signal: request.signal });
    }
  }
}

/** Grows with every attempt and is spread, so that many brains do not come back at once; a provider's word is final. */
function backOffMs(attempt: number, { retryAfterMs, cause }: Retryable): number {
  const isTold = retryAfterMs > 0 || hasRetryAfter(cause);
  return isTold ? 0 : Math.min(BACK_OFF_MS * 2 ** attempt, BACK_OFF_MS_MAX) * (0.75 + Math.random() / 2);
}

function hasRetryAfter(cause: unknown): boolean {
  return (
    cause instanceof Error &&
    "responseHeaders" in cause &&
    typeof cause.responseHeaders === "object" &&
    cause.responseHeaders !== null &&
    "retry-after" in cause.responseHeaders
  );
}

async function requestOnce(asked: Asked, request: ModelRequest, reader: ReplyReader): Promise<ModelReply> {
  const { name, language, config, limits } = asked;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(silent(name, limits.modelSilenceMs)), limits.modelSilenceMs);
  const signal = AbortSignal.any([request.signal, silence.signal]);
  try {
    signal.throwIfAborted();
    const started = Promise.resolve(language.doStream(optionsOf(config, request, signal)));
    const { stream } = await unlessAborted(started, signal);
    await readAll(stream, signal, (part) => {
      timer.refresh();
      reader.take(part);
    });
    return replyOf(config, reader);
  } catch (error) {
    // Whatever the library makes of an abort, the reason is ours.
    signal.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  signal: AbortSignal,
  onPart: (part: LanguageModelV4StreamPart) => void,
): Promise<void> {
  const reader = stream.getReader();
  // Cancelling a stream that broke fails with the error that is being thrown already.
  const cancel = () => void reader.cancel().catch(() => undefined);
  signal.addEventListener("abort", cancel, { once: true });
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      signal.throwIfAborted();
      onPart(read.value);
    }
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
}

function optionsOf(
  config: ProviderConfig,
  request: ModelRequest,
  abortSignal: AbortSignal,
): LanguageModelV4CallOptions {
  const prompt = promptOf(request.system, request.history);
  return {
    prompt: config.api === "anthropic" ? withCacheBreakpoints(prompt) : prompt,
    maxOutputTokens: Math.min(config.outputTokensMax, request.outputTokensMax ?? config.outputTokensMax),
    tools: request.tools.map(({ name, description, inputSchema }) => ({
      type: "function",
      name,
      description,
      inputSchema,
    })),
    toolChoice: { type: "auto" },
    abortSignal,
    // The conversation stays here: nothing is kept at the provider, and reasoning comes back encrypted.
    ...(config.api === "openai" ? { providerOptions: { openai: { store: false } } } : {}),
  };
}

function replyOf(config: ProviderConfig, reader: ReplyReader): ModelReply {
  const { content, finish } = reader.end();
  const finishReason = finishReasonOf(finish.finishReason.unified);
  return { content, finishReason, usage: usageOf(finish.usage), costUsd: costOf(config, finish.usage) };
}

function finishReasonOf(unified: FinishReason | "interrupted"): FinishReason {
  return unified === "interrupted" ? "other" : unified;
}
