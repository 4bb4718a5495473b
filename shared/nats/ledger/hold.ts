// How far a reader of one shard has come, and how it goes on without its consumer.
//
// A consumer lets one message out at a time, so each message costs a delivery and an acknowledgement of its own, for
// every service. Where all who write are in this process, a reader that is alone does not give its message back while
// others follow: it takes them from what the process knows, and has the consumer follow once the shard is quiet. So a
// turn is not held up by the services that only watch it. After a crash what was not acknowledged comes again.
import { ledgerShardSubject } from "#schemas/ledger/subjects.ts";
import { waited } from "#shared/ledger/delivery.ts";
import type { RecentMessages, SubjectMessage } from "#shared/ledger/recent.ts";

export const BATCH_MAX = 64;
/** The shard counts as quiet when nothing followed for so long. */
export const HOLD_MS = 250;
/** Messages that were handled and not acknowledged. */
export const HELD_MAX = 1_000;

export type Batch = readonly SubjectMessage[];

export type Progress = {
  /** Sequences up to which this replica has handled and acknowledged messages, and its last delivery's number. */
  done: number;
  acknowledged: number;
  delivery: number;
  /** Up to here all that this process knows was looked at: what is after `done` belongs to other shards. */
  scanned: number;
  /** `performance.now()` before which a handler that gathers is not called again. */
  gatherUntil: number;
  /** Messages that were handled before the consumer delivered them. */
  ahead: Map<number, Uint8Array>;
};

export type Holding = Readonly<{
  recent: RecentMessages;
  shard: number;
  gatherMs: number;
  stopping: AbortSignal;
  /** False when the service stops first. */
  deliver: (batch: Batch) => Promise<boolean>;
}>;

/** A server that lost what it had gives the sequence to another message, which is not what was read ahead. */
export function wasHandled({ done, ahead }: Progress, { sequence, bytes }: SubjectMessage): boolean {
  const read = ahead.get(sequence);
  return sequence <= done && (read === undefined || Buffer.compare(read, bytes) === 0);
}

/** The batch begins with a message that the consumer delivered. */
export function noteNewBatch(progress: Progress, batch: Batch): void {
  progress.ahead.clear();
  noteAhead(progress, batch.slice(1));
  progress.done = Math.max(progress.done, batch.at(-1)?.sequence ?? 0);
}

function noteAhead(progress: Progress, batch: Batch): void {
  for (const { sequence, bytes } of batch) progress.ahead.set(sequence, bytes);
  progress.done = Math.max(progress.done, batch.at(-1)?.sequence ?? 0);
}

/** Resolves when nothing followed for a while, too much is unacknowledged, or the service stops. */
export async function hold(holding: Holding, progress: Progress): Promise<void> {
  const { recent, stopping } = holding;
  let wake = (): void => undefined;
  const onNews = () => wake();
  const quiet = quietTime(onNews);
  const unwatch = recent.watch(onNews);
  stopping.addEventListener("abort", onNews);
  try {
    while (!quiet.hasPassed && mayGoOn(holding, progress)) {
      const news = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (known(holding, progress).length === 0) {
        await news;
        continue;
      }
      const pauseMs = progress.gatherUntil - performance.now();
      if (pauseMs > 0) await waited(pauseMs, stopping);
      await workOffKnown(holding, progress);
      quiet.begin();
    }
  } finally {
    quiet.end();
    unwatch();
    stopping.removeEventListener("abort", onNews);
  }
}

function mayGoOn({ stopping }: Holding, { ahead }: Progress): boolean {
  return !stopping.aborted && ahead.size < HELD_MAX;
}

function quietTime(onPassed: () => void) {
  const timer = setTimeout(() => {
    quiet.hasPassed = true;
    onPassed();
  }, HOLD_MS);
  const quiet = { hasPassed: false, begin: () => void timer.refresh(), end: () => clearTimeout(timer) };
  return quiet;
}

/** Handles what the process knows beyond what was handled; nothing while a handler that gathers has its pause. */
export async function workOffKnown(holding: Holding, progress: Progress): Promise<void> {
  if (!mayGoOn(holding, progress) || performance.now() < progress.gatherUntil) return;
  const batch = known(holding, progress);
  if (batch.length === 0 || !(await holding.deliver(batch))) return;
  noteAhead(progress, batch);
  progress.gatherUntil = holding.gatherMs === 0 ? 0 : performance.now() + holding.gatherMs;
}

/** The shard's next messages, as far as nothing before them is unknown. */
function known({ recent, shard }: Holding, progress: Progress): Batch {
  const subjectStart = ledgerShardSubject(shard).slice(0, -1);
  const batch: SubjectMessage[] = [];
  let sequence = Math.max(progress.scanned, progress.done);
  for (let next = recent.at(sequence + 1); next !== undefined; next = recent.at(++sequence + 1)) {
    if (next.subject.startsWith(subjectStart) && batch.push(next) >= BATCH_MAX) break;
  }
  // What is handed out counts as looked at once it is handled, which `done` says.
  if (batch.length === 0) progress.scanned = sequence;
  return batch;
}
