// What a turn came to, folded from its ledger messages. Pure.

import { z } from "zod";
import type { LedgerMessageView } from "#schemas/api/stream.ts";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";

export type TurnEnd = EventOf<"TurnEnded">["data"];

export type Summary = Readonly<{
  replies: number;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
  /** false: some reply's model has no known price. */
  costComplete: boolean;
  /** Paths that calls of `write` and `edit` changed; what commands changed is not known here. */
  filesChanged: readonly string[];
  startedAt: string | undefined;
  endedAt: string | undefined;
  end: TurnEnd | undefined;
}>;

export const emptySummary: Summary = {
  replies: 0,
  calls: 0,
  inputTokens: 0,
  outputTokens: 0,
  costUsd: 0,
  costComplete: true,
  filesChanged: [],
  startedAt: undefined,
  endedAt: undefined,
  end: undefined,
};

const withPath = z.object({ path: z.string() });

export function summarize(summary: Summary, message: LedgerMessageView): Summary {
  return message.events.reduce((so, event) => withEvent(so, event, message.at), summary);
}

function withEvent(summary: Summary, event: PistisEvent, at: string): Summary {
  switch (event.type) {
    case "TurnStarted":
      return { ...summary, startedAt: summary.startedAt ?? at };
    case "ModelReplied":
      return withReply(summary, event.data);
    case "HistoryCompacted":
      return event.data.compaction.kind === "summarized" ? withSpending(summary, event.data.compaction) : summary;
    case "ToolStarted":
      return { ...summary, calls: summary.calls + 1 };
    case "TurnEnded":
      return { ...summary, end: event.data, endedAt: at };
    default:
      return summary;
  }
}

function withReply(summary: Summary, reply: EventOf<"ModelReplied">["data"]): Summary {
  const changed = reply.content.flatMap((part) =>
    part.type === "tool-call" && ["write", "edit"].includes(part.tool) ? pathOf(part.input) : [],
  );
  return {
    ...withSpending(summary, reply),
    replies: summary.replies + 1,
    filesChanged: [...new Set([...summary.filesChanged, ...changed])],
  };
}

type Spending = Pick<EventOf<"ModelReplied">["data"], "usage" | "costUsd">;

function withSpending(summary: Summary, { usage, costUsd }: Spending): Summary {
  return {
    ...summary,
    inputTokens: summary.inputTokens + usage.inputTokens,
    outputTokens: summary.outputTokens + usage.outputTokens,
    costUsd: summary.costUsd + (costUsd ?? 0),
    costComplete: summary.costComplete && costUsd !== null,
  };
}

function pathOf(input: unknown): string[] {
  const parsed = withPath.safeParse(input);
  return parsed.success ? [parsed.data.path] : [];
}
