// git's progress lines as live messages: often enough for a person, not as often as git writes.
import type { LivePublisher } from "#shared/live/live.ts";

const EVERY_MS = 200;

export type Progress = (step: string, text: string) => void;

export function openProgress(live: LivePublisher, session: string): Progress {
  let number = 0;
  let last = { at: Number.NEGATIVE_INFINITY, step: "" };
  return (step, text) => {
    const at = performance.now();
    if (step === last.step && at - last.at < EVERY_MS) return;
    last = { at, step };
    const percent = percentIn(text);
    live.publish(session, {
      ...{ kind: "progress", epoch: 0, number, step, text: text.slice(0, 1_000) },
      ...(percent === undefined ? {} : { percent }),
    });
    number += 1;
  };
}

function percentIn(text: string): number | undefined {
  const found = /\b(\d{1,3})%/.exec(text)?.[1];
  return found === undefined ? undefined : Math.min(100, Number(found));
}
