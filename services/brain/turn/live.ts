// What people see while it happens. Numbered per session and epoch, so that a reader notices a gap; nothing here
// is ever waited for.

import type { LiveMessage } from "#schemas/live/live.ts";
import type { LivePublisher } from "#shared/live/live.ts";
import type { Delta } from "../models/model.ts";

type Unnumbered<Message = LiveMessage> = Message extends LiveMessage ? Omit<Message, "epoch" | "number"> : never;

export type TurnLive = Readonly<{
  delta: (turnId: string, replyId: string, delta: Delta) => void;
  output: (chunk: { callId: string; position: number; text: string; skippedBytes: number }) => void;
  progress: (step: string, text: string) => void;
}>;

/** `epoch`: the one that the turn is worked on under. */
export function openTurnLive(publisher: LivePublisher, session: string, epoch: number): TurnLive {
  let number = 0;
  const publish = (message: Unnumbered) => publisher.publish(session, { ...message, epoch, number: number++ });
  return {
    delta: (turnId, replyId, { kind, text }) =>
      publish({ kind: kind === "text" ? "text-delta" : "reasoning-delta", turnId, replyId, text }),
    output: (chunk) => publish({ kind: "output", ...chunk }),
    progress: (step, text) => publish({ kind: "progress", step, text }),
  };
}
