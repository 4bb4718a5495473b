// Each call of a run with all that the ledger says about it.
import type { EventOf } from "#schemas/ledger/event.ts";
import { markIdOf, type ObservedMessage, outputOfInput } from "./observed.ts";

export type CallEnded = EventOf<"ToolDone" | "ToolOutcomeUnknown" | "ToolNotRun" | "ToolRefused"> &
  Readonly<{ storedAtMs: number }>;

export type CallHistory = Readonly<{
  callId: string;
  session: string;
  tool: string;
  /** Of the reply that asked for it. */
  turnId: string;
  /** Of the mark that the call leaves behind; none for calls that change nothing. */
  markId: string | undefined;
  /** What a command with that mark writes, whole. */
  output: string;
  started: Readonly<{ storedAtMs: number }> | undefined;
  starts: number;
  ends: readonly CallEnded[];
}>;

type Growing = {
  callId: string;
  session: string;
  tool: string;
  turnId: string;
  markId: string | undefined;
  output: string;
  started: { storedAtMs: number } | undefined;
  starts: number;
  ends: CallEnded[];
};

export function callsOf(messages: readonly ObservedMessage[]): CallHistory[] {
  const calls = new Map<string, Growing>();
  const call = (session: string, callId: string): Growing => {
    const known = calls.get(callId);
    if (known !== undefined) return known;
    const unasked = { tool: "", turnId: "", markId: undefined, output: "" };
    const fresh: Growing = { callId, session, ...unasked, started: undefined, starts: 0, ends: [] };
    calls.set(callId, fresh);
    return fresh;
  };
  for (const message of messages) for (const event of message.events) take(message, event, call);
  return [...calls.values()];
}

function take(
  { session, storedAtMs }: ObservedMessage,
  event: ObservedMessage["events"][number],
  call: (session: string, callId: string) => Growing,
): void {
  switch (event.type) {
    case "ModelReplied":
      for (const part of event.data.content) {
        if (part.type !== "tool-call") continue;
        const { callId, tool, input } = part;
        const asked = { tool, turnId: event.data.turnId, markId: markIdOf(input), output: outputOfInput(input) };
        Object.assign(call(session, callId), asked);
      }
      return;
    case "ToolStarted": {
      const started = call(session, event.data.callId);
      started.starts += 1;
      started.started ??= { storedAtMs };
      return;
    }
    case "ToolDone":
    case "ToolOutcomeUnknown":
    case "ToolNotRun":
    case "ToolRefused":
      call(session, event.data.callId).ends.push({ ...event, storedAtMs });
      return;
  }
}

export function isExitedWell(outcome: EventOf<"ToolDone">["data"]["outcome"]): boolean {
  return outcome.status === "exited" && outcome.exitCode === 0;
}
