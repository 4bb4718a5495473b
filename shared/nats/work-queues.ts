// The work queues, and the name of the one consumer of each kind of worker.
import {
  PROBES_STREAM,
  PROBES_SUBJECT,
  REPORTS_STREAM,
  TASKS_STREAM,
  TIMERS_STREAM,
  TIMERS_SUBJECT,
  taskSubject,
} from "#schemas/ledger/subjects.ts";

/**
 * `subjects`: those of its stream. `filter`: those that its worker takes. `ackWaitMs`: of this consumer, when it is not
 * the usual one.
 */
export type WorkQueue = Readonly<{
  stream: string;
  subjects: string;
  consumer: string;
  filter: string;
  ackWaitMs?: number;
}>;

/** Deliveries of one work item before it is parked: those that took their worker down, or that failed for the item's own sake. */
export const ATTEMPTS_MAX = 10;
export const ACK_WAIT_MS = 30_000;
/** A turn waits for a probe, so one that a scheduler took with it when it died comes again soon. */
export const PROBE_ACK_WAIT_MS = 5_000;
const PROVIDERS = ["local", "docker"] as const;

/** Deadlines of the scheduler's own. */
export const TIMERS_QUEUE: WorkQueue = {
  stream: TIMERS_STREAM,
  subjects: TIMERS_SUBJECT,
  consumer: "scheduler",
  filter: TIMERS_SUBJECT,
};

/** Sandboxes that the scheduler has to probe. */
export const PROBES_QUEUE: WorkQueue = {
  stream: PROBES_STREAM,
  subjects: PROBES_SUBJECT,
  consumer: "scheduler",
  filter: PROBES_SUBJECT,
  ackWaitMs: PROBE_ACK_WAIT_MS,
};

/** What providers, relay and egress service tell the scheduler. */
export const REPORTS_QUEUE: WorkQueue = {
  stream: REPORTS_STREAM,
  subjects: "reports.*",
  consumer: "scheduler",
  filter: "reports.*",
};

/** What the scheduler wants one kind of provider to do. */
export function taskQueue(provider: string): WorkQueue {
  return { stream: TASKS_STREAM, subjects: "tasks.*", consumer: `provider-${provider}`, filter: taskSubject(provider) };
}

export const CORE_QUEUES: readonly WorkQueue[] = [TIMERS_QUEUE, PROBES_QUEUE];

export const EDGE_QUEUES: readonly WorkQueue[] = [REPORTS_QUEUE, ...PROVIDERS.map(taskQueue)];
