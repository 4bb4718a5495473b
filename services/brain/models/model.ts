// What the turn asks of a model, whoever makes it.
import type { Usage } from "#schemas/ledger/parts.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { HistoryEntry, Json } from "../session/history.ts";

export type ToolDescription = Readonly<{
  name: string;
  description: string;
  inputSchema: { readonly [key: string]: Json };
}>;

export type Delta = Readonly<{ kind: "text" | "reasoning"; text: string }>;

export type ModelRequest = Readonly<{
  system: string;
  history: readonly HistoryEntry[];
  tools: readonly ToolDescription[];
  signal: AbortSignal;
  /** Less than the model's own limit of a reply, where less is wanted. */
  outputTokensMax?: number;
  onDelta: (delta: Delta) => void;
  /** The request failed before anything was heard and is made again after that many milliseconds. */
  onRetry?: (why: string, afterMs: number) => void;
}>;

export type ReplyContent =
  | Readonly<{ type: "text"; text: string }>
  | Readonly<{ type: "reasoning"; text: string; providerMetadata?: Json }>
  /** `input` is the raw text, a string, when the model sent no valid JSON. */
  | Readonly<{ type: "tool-call"; modelCallId: string; tool: string; input: Json }>;

export type FinishReason = "stop" | "length" | "content-filter" | "tool-calls" | "error" | "other";

export type ModelReply = Readonly<{
  content: readonly ReplyContent[];
  finishReason: FinishReason;
  usage: Usage;
  /** US dollars; null when no price is known. */
  costUsd: number | null;
}>;

/** What fits into one request, in tokens: the reply has to fit as well. */
export type ModelWindow = Readonly<{ contextTokens: number; outputTokensMax: number }>;

export interface Model {
  /** The name that people chose in pistis.json. */
  readonly name: string;
  /** Absent: a request may be of any size. */
  readonly window?: ModelWindow;
  /**
   * One request. Rejects with the signal's reason when it aborts, and with a Refusal or Retryable whose code
   * starts with `model_` when there is no reply.
   */
  request(request: ModelRequest): Promise<ModelReply>;
}

/** Throws a Refusal `model_unknown` for a name that is not configured. */
export type Models = Readonly<{ get: (name: string) => Promise<Model> }>;

/** Code of the Refusal for a request that is longer than the model takes. */
export const MODEL_OVERFLOW = "model_context_overflow";

export function isModelOverflow(error: unknown): boolean {
  return error instanceof Refusal && error.code === MODEL_OVERFLOW;
}
