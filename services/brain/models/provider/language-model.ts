// A new API is a line in this table. Libraries are loaded when they are first used.
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { ProviderConfig } from "./provider-model.ts";
import { fetchOverNode } from "./transport.ts";

export async function openLanguageModel(config: ProviderConfig): Promise<LanguageModelV4> {
  const { model, apiKey, baseUrl: baseURL } = config;
  const fetch = fetchOverNode;
  switch (config.api) {
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ apiKey: config.apiKey, fetch, ...(baseURL === undefined ? {} : { baseURL }) })(model);
    }
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI({ apiKey: config.apiKey, fetch, ...(baseURL === undefined ? {} : { baseURL }) }).responses(
        model,
      );
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const key = apiKey === undefined ? {} : { apiKey };
      const settings = { name: "openai-compatible", baseURL: config.baseUrl, includeUsage: true, fetch, ...key };
      return createOpenAICompatible(settings).chatModel(model);
    }
  }
}
