// Reads one streamed reply, part by part, into the whole.
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { z } from "zod";
import type { Json } from "../../session/history.ts";
import type { Delta, ReplyContent } from "../model.ts";
import { brokenOff } from "./failure.ts";

type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;
type ToolCall = Extract<LanguageModelV4StreamPart, { type: "tool-call" }>;
type OpenPart = { type: "text" | "reasoning"; text: string; metadata: unknown };

/** Made once: making it takes longer than reading a reply with it. */
const json = z.json();

export type StreamedReply = Readonly<{ content: readonly ReplyContent[]; finish: Finish }>;

export class ReplyReader {
  readonly #onDelta: (delta: Delta) => void;
  /** Parts in the order in which they began. */
  readonly #parts: Array<OpenPart | ReplyContent> = [];
  readonly #open = new Map<string, OpenPart>();
  #finish: Finish | undefined;
  /** Something of the reply was heard, so asking again would not be the same request any more. */
  heard = false;

  constructor(onDelta: (delta: Delta) => void) {
    this.#onDelta = onDelta;
  }

  take(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.#begin(part.type === "text-start" ? "text" : "reasoning", part.id, part.providerMetadata);
        return;
      case "text-delta":
      case "reasoning-delta":
        this.#grow(part);
        return;
      case "text-end":
      case "reasoning-end":
        this.#note(part.id, part.providerMetadata);
        return;
      case "tool-input-start":
        this.heard = true;
        return;
      case "tool-call":
        this.heard = true;
        this.#parts.push(callOf(part));
        return;
      case "finish":
        this.#finish = part;
        return;
      case "error":
        throw part.error;
      default:
        return;
    }
  }

  /** The whole reply; throws when the stream ended before the model did. */
  end(): StreamedReply {
    const finish = this.#finish;
    const isCut = finish?.finishReason.unified === "other" && finish.finishReason.raw === undefined;
    if (finish === undefined || isCut) throw brokenOff("The model's reply broke off before its end");
    return { finish, content: this.#parts.flatMap(contentOf) };
  }

  #begin(type: "text" | "reasoning", id: string, metadata: unknown): void {
    const part: OpenPart = { type, text: "", metadata };
    this.#open.set(id, part);
    this.#parts.push(part);
  }

  #grow(part: Extract<LanguageModelV4StreamPart, { type: "text-delta" | "reasoning-delta" }>): void {
    this.heard = true;
    this.#note(part.id, part.providerMetadata);
    const open = this.#open.get(part.id);
    if (open !== undefined) open.text += part.delta;
    if (part.delta !== "") this.#onDelta({ kind: part.type === "text-delta" ? "text" : "reasoning", text: part.delta });
  }

  #note(id: string, metadata: unknown): void {
    const open = this.#open.get(id);
    if (open !== undefined && metadata !== undefined) open.metadata = metadata;
  }
}

function contentOf(part: OpenPart | ReplyContent): ReplyContent[] {
  if (part.type === "tool-call") return [part];
  if (part.type === "text") return part.text === "" ? [] : [{ type: "text", text: part.text }];
  const metadata = json.safeParse("metadata" in part ? part.metadata : undefined);
  if (!metadata.success) return part.text === "" ? [] : [{ type: "reasoning", text: part.text }];
  return [{ type: "reasoning", text: part.text, providerMetadata: metadata.data }];
}

function callOf({ toolCallId, toolName, input }: ToolCall): ReplyContent {
  return { type: "tool-call", modelCallId: toolCallId, tool: toolName, input: inputOf(input) };
}

/** No input means no arguments; text that is no JSON stays text, and the call is refused with it. */
function inputOf(text: string): Json {
  if (text.trim() === "") return {};
  try {
    return json.parse(JSON.parse(text));
  } catch {
    return text;
  }
}
