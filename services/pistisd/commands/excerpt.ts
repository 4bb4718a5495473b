import type { ExecResult } from "#schemas/wire/message.ts";
import type { Finished } from "../state/call-records.ts";
import type { Spool } from "./spool.ts";

export type ExcerptLimits = Readonly<{ headBytes: number; tailBytes: number }>;

/** The result of a command as the server gets it: how it ended, and the start and the end of its output. */
export function execResultOf(finished: Finished, spool: Spool, limits: ExcerptLimits): ExecResult {
  const { outputBytes } = finished;
  const head = spool.read(0, Math.min(limits.headBytes, outputBytes));
  const tailStart = Math.max(head.byteLength, outputBytes - limits.tailBytes);
  const tail = readUpTo(spool, Math.max(tailStart, keptStart(spool, tailStart)), outputBytes);
  return {
    outcome: finished.outcome,
    outputBytes,
    keptBytes: Math.min(spool.keptBytes, outputBytes),
    head: base64(head),
    tail: base64(tail),
    durationMs: finished.durationMs,
    leftRunning: finished.leftRunning,
  };
}

function keptStart(spool: Spool, position: number): number {
  return position < spool.keptBytes ? position : spool.oldestTail();
}

/** The excerpt may begin in the kept start and end in the kept end. */
function readUpTo(spool: Spool, from: number, to: number): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let position = from; position < to; ) {
    const part = spool.read(position, to - position);
    if (part.byteLength === 0) break;
    parts.push(part);
    position += part.byteLength;
  }
  return Buffer.concat(parts);
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}
