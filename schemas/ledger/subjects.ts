// Where things are in NATS. The ledger is one stream in the CORE account; tasks, reports and
// everything a hostile guest comes near are in EDGE. `live.*` is core NATS and need not last.

export const LEDGER_STREAM = "LEDGER";
export const TASKS_STREAM = "TASKS";
export const REPORTS_STREAM = "REPORTS";
/** CORE, work queue: deadlines that the scheduler sets for itself. */
export const TIMERS_STREAM = "TIMERS";
/** CORE, work queue: sandboxes whose network the scheduler has to probe. */
export const PROBES_STREAM = "PROBES";
/** In each account: work that nobody could do, with the reason, for a person to look at. */
export const PARKED_STREAM = "PARKED";
export const LEASES_BUCKET = "leases";
/** CORE: what sandboxes the scheduler's warm pool has. */
export const POOL_BUCKET = "pool";

/** Session id under which events stand that belong to no session. */
export const INSTALL_SESSION = "install";

/** One of `shards` subjects' second token; FNV-1a over the id, so every language computes the same. */
export function shardOf(session: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < session.length; index++) {
    hash = Math.imul(hash ^ session.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash % shards;
}

export function ledgerSubject(session: string, shards: number): string {
  return `ledger.${shardOf(session, shards)}.${session}`;
}

export function ledgerShardSubject(shard: number): string {
  return `ledger.${shard}.*`;
}

/** Core NATS. `kind` is one of `schemas/live/live.ts`. */
export function liveSubject(session: string, kind: string): string {
  return `live.${session}.${kind}`;
}

export function liveSessionSubject(session: string): string {
  return `live.${session}.>`;
}

/** EDGE, work queue: what a provider has to do. */
export function taskSubject(provider: string): string {
  return `tasks.${provider}`;
}

/** EDGE, work queue: what providers, relay and egress service saw. `reporter` is `provider-<kind>`, `relay` or `egress`. */
export function reportSubject(reporter: string): string {
  return `reports.${reporter}`;
}

/** EDGE, request and reply: the egress service asks the scheduler what a sandbox may reach. */
export const NETWORK_QUESTIONS_SUBJECT = "questions.network";

export const TIMERS_SUBJECT = "timers.scheduler";
export const PROBES_SUBJECT = "probes.scheduler";

/** Where a work queue puts an item that it gives up. */
export function parkedSubject(stream: string, consumer: string): string {
  return `parked.${stream}.${consumer}`;
}
