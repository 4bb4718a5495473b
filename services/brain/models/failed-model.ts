import type { Model } from "./model.ts";

/** Stands for a model that cannot be had: every request fails with the reason. */
export function failedModel(name: string, reason: unknown): Model {
  return { name, request: () => Promise.reject(reason) };
}
