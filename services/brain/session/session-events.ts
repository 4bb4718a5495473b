// The parts of the catalogue that the brain folds, by what they are about.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";

export type SandboxEvent = Extract<PistisEvent, { type: `Sandbox${string}` }>;
export type RepositoryCopyEvent = EventOf<"RepositoryCopied" | "RepositoryCopyFailed">;
export type CallEndEvent = EventOf<"ToolDone" | "ToolOutcomeUnknown" | "ToolNotRun" | "ToolRefused">;
