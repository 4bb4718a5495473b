// Sessions whose repository has to be copied in. A copy takes longer than the ledger may wait, so a session is noted in
// a file before its message is acknowledged, and the note goes when the outcome is in the ledger.
import { mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { failureOf, Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import { newId } from "#shared/ids/ids.ts";
import type { Log } from "#shared/service/log.ts";

const RETRY_MS = 5_000;
const NOTE_RETRY_MS = 1_000;

export type CopyQueue = Readonly<{
  /** Resolves when the session is noted on disk. Throws Retryable `copy_not_noted`. */
  add: (session: string) => Promise<void>;
  /** Ends what runs; it goes on at the next start. */
  close: () => Promise<void>;
}>;

export type CopyQueueOptions = Readonly<{
  folder: string;
  copiesMax: number;
  /** Does the session's work. Called again some time after it threw. */
  work: (session: string, signal: AbortSignal) => Promise<void>;
  log: Log;
}>;

type Queue = CopyQueueOptions & {
  /** With the names of their notes. */
  waiting: Map<string, readonly string[]>;
  running: Map<string, Promise<void>>;
  stop: AbortController;
};

/** Goes on with what an earlier process left. */
export async function openCopyQueue(options: CopyQueueOptions): Promise<CopyQueue> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  const queue: Queue = { ...options, waiting: new Map(), running: new Map(), stop: new AbortController() };
  for (const name of await readdir(options.folder)) want(queue, name.split(".")[0] ?? name, [name]);
  startNext(queue);
  return {
    async add(session) {
      step("publisher.copy.noting");
      const name = `${session}.${newId("task")}`;
      await note(join(options.folder, name));
      step("publisher.copy.noted");
      want(queue, session, [name]);
      startNext(queue);
    },
    async close() {
      queue.stop.abort();
      await Promise.all(queue.running.values());
    },
  };
}

function want(queue: Queue, session: string, notes: readonly string[]): void {
  queue.waiting.set(session, [...(queue.waiting.get(session) ?? []), ...notes]);
}

/** Throws Retryable: a message that is not noted comes again, or nobody would copy for its session. */
async function note(path: string): Promise<void> {
  try {
    const file = await open(path, "w", 0o600);
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new Retryable("copy_not_noted", `A copy could not be noted on the disk: ${failureOf(cause).message}`, {
      cause,
      retryAfterMs: NOTE_RETRY_MS,
      next: "Free disk space in the state folder of the server, and see that Pistis may write there.",
    });
  }
}

function startNext(queue: Queue): void {
  for (const [session, notes] of queue.waiting) {
    if (queue.stop.signal.aborted || queue.running.size >= queue.copiesMax) return;
    if (queue.running.has(session)) continue;
    queue.waiting.delete(session);
    queue.running.set(session, runOne(queue, session, notes));
  }
}

async function runOne(queue: Queue, session: string, notes: readonly string[]): Promise<void> {
  const { work, stop, folder } = queue;
  try {
    await work(session, stop.signal);
    // What was added meanwhile has a note of its own.
    for (const name of notes) await rm(join(folder, name), { force: true });
  } catch (error) {
    if (!stop.signal.aborted) retryLater(queue, session, notes, error);
  } finally {
    queue.running.delete(session);
    startNext(queue);
  }
}

/** The work records its own failures, so what comes here is ours: the ledger does not answer. */
function retryLater(queue: Queue, session: string, notes: readonly string[], error: unknown): void {
  queue.log.error({ session, failure: failureOf(error), retryMs: RETRY_MS }, "A copy could not be recorded");
  const retry = () => {
    want(queue, session, notes);
    startNext(queue);
  };
  setTimeout(retry, RETRY_MS).unref();
}
