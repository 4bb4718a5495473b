// Tokens and what they cost.
import type { LanguageModelV4Usage } from "@ai-sdk/provider";
import type { Usage } from "#schemas/ledger/parts.ts";
import type { ProviderConfig } from "./provider-model.ts";

/** Anthropic bills what it writes into its five-minute cache at this multiple of the input price. */
const ANTHROPIC_CACHE_WRITE = 1.25;

export function usageOf({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage {
  return {
    inputTokens: inputTokens.total ?? 0,
    outputTokens: outputTokens.total ?? 0,
    cachedInputTokens: inputTokens.cacheRead ?? 0,
  };
}

/** US dollars; null when the price is not configured or the provider did not count. */
export function costOf(config: ProviderConfig, { inputTokens, outputTokens }: LanguageModelV4Usage): number | null {
  const { price } = config;
  if (price === undefined || inputTokens.total === undefined || outputTokens.total === undefined) return null;
  const cached = inputTokens.cacheRead ?? 0;
  const written = inputTokens.cacheWrite ?? 0;
  const plain = Math.max(0, inputTokens.total - cached - written);
  const writePrice = price.inputPerMillion * (config.api === "anthropic" ? ANTHROPIC_CACHE_WRITE : 1);
  const cost =
    plain * price.inputPerMillion +
    written * writePrice +
    cached * (price.cachedInputPerMillion ?? price.inputPerMillion) +
    outputTokens.total * price.outputPerMillion;
  return cost / 1_000_000;
}
