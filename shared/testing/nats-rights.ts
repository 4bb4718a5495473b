// What each NATS user may do, listed by hand beside `shared/nats/permissions.ts`, for the tests that try everything else.
import { CORE_USERS, EDGE_USERS, type NatsUser } from "#shared/nats/keys.ts";
import { ledgerConsumer, REACTORS } from "#shared/nats/permissions.ts";

export const CORE_STREAMS = ["LEDGER", "KV_leases", "KV_pool", "TIMERS", "PROBES", "PARKED"];
export const EDGE_STREAMS = ["TASKS", "REPORTS", "PARKED"];
export const STREAMS = [...new Set([...CORE_STREAMS, ...EDGE_STREAMS])];
export const DURABLES = [
  ...REACTORS.flatMap((service) => [0, 1].map((shard) => ["LEDGER", ledgerConsumer(service, shard)] as const)),
  ["TIMERS", "scheduler"],
  ["PROBES", "scheduler"],
  ["TASKS", "provider-local"],
  ["TASKS", "provider-docker"],
  ["REPORTS", "scheduler"],
] as const;

export type Service = Exclude<NatsUser, "setup" | "edge-setup">;
export const SERVICES = [...CORE_USERS, ...EDGE_USERS].filter(
  (user): user is Service => user !== "setup" && user !== "edge-setup",
);

/** Subjects with data, and who may publish there. */
export const PUBLISHERS: { [subject: string]: readonly Service[] } = {
  "ledger.0.ses_a": ["gateway", "brain", "scheduler", "publisher"],
  "ledger.1.ses_new": ["gateway", "brain", "scheduler", "publisher"],
  "ledger.0": [],
  "ledger.0.ses_a.more": [],
  "live.ses_a.text-delta": ["brain"],
  "live.ses_a.progress": ["brain", "publisher"],
  "$KV.leases.ses_a": ["brain"],
  "$KV.pool.members": ["scheduler"],
  "$KV.other.ses_a": [],
  "timers.scheduler": ["scheduler"],
  "timers.other": [],
  "probes.scheduler": ["scheduler"],
  "probes.other": [],
  "tasks.local": ["edge-scheduler"],
  "tasks.docker": ["edge-scheduler"],
  "reports.provider-local": ["provider-local"],
  "reports.provider-docker": ["provider-docker"],
  "reports.provider-other": [],
  "reports.relay": ["relay"],
  "reports.egress": ["egress"],
  "questions.network": ["egress"],
  "questions.other": [],
  "_INBOX_egress.forged": ["edge-scheduler"],
  "_INBOX_relay.forged": [],
  "parked.TIMERS.scheduler": ["scheduler"],
  "parked.PROBES.scheduler": ["scheduler"],
  "parked.TASKS.provider-local": ["provider-local"],
  "parked.TASKS.provider-docker": ["provider-docker"],
  "parked.REPORTS.scheduler": ["edge-scheduler"],
  "parked.LEDGER.brain-0": ["brain"],
  "parked.LEDGER.publisher-1": ["publisher"],
  "$SYS.REQ.SERVER.PING": [],
  "_INBOX_brain.forged": [],
  "_INBOX_gateway.forged": [],
  "_INBOX_edge-scheduler.forged": [],
};

/** Management of streams: nobody but set-up. */
export const MANAGEMENT = [
  ...STREAMS.flatMap((stream) => [
    `$JS.API.STREAM.CREATE.${stream}`,
    `$JS.API.STREAM.UPDATE.${stream}`,
    `$JS.API.STREAM.DELETE.${stream}`,
    `$JS.API.STREAM.PURGE.${stream}`,
    `$JS.API.STREAM.MSG.DELETE.${stream}`,
    `$JS.API.STREAM.SNAPSHOT.${stream}`,
    `$JS.API.STREAM.RESTORE.${stream}`,
    `$JS.API.STREAM.PEER.REMOVE.${stream}`,
    `$JS.API.STREAM.LEADER.STEPDOWN.${stream}`,
    `$JS.API.CONSUMER.NAMES.${stream}`,
    `$JS.API.CONSUMER.LIST.${stream}`,
    `$JS.API.CONSUMER.CREATE.${stream}`,
    `$JS.API.CONSUMER.CREATE.${stream}.mine`,
  ]),
  ...DURABLES.flatMap(([stream, consumer]) => [
    `$JS.API.CONSUMER.CREATE.${stream}.${consumer}`,
    `$JS.API.CONSUMER.CREATE.${stream}.${consumer}.ledger.0.*`,
    `$JS.API.CONSUMER.CREATE.${stream}.${consumer}.>`,
    `$JS.API.CONSUMER.DURABLE.CREATE.${stream}.${consumer}`,
    `$JS.API.CONSUMER.DELETE.${stream}.${consumer}`,
    `$JS.API.CONSUMER.PAUSE.${stream}.${consumer}`,
    `$JS.API.CONSUMER.LEADER.STEPDOWN.${stream}.${consumer}`,
  ]),
  "$JS.API.STREAM.CREATE.MINE",
  "$JS.API.STREAM.NAMES",
  "$JS.API.STREAM.LIST",
  "$JS.API.META.LEADER.STEPDOWN",
  "$JS.API.ACCOUNT.PURGE.CORE",
];

function providerOf(consumer: string): Service {
  return consumer === "provider-docker" ? consumer : "provider-local";
}

/** Who works off a durable consumer; nobody else may pull from it, acknowledge for it or ask about it. */
export function worker(stream: string, consumer: string): Service {
  const service = SERVICES.find((user) => stream === "LEDGER" && consumer.startsWith(`${user}-`));
  if (service !== undefined) return service;
  if (stream === "TIMERS" || stream === "PROBES") return "scheduler";
  return stream === "TASKS" ? providerOf(consumer) : "edge-scheduler";
}

export const READERS: { [subject: string]: readonly Service[] } = {
  "ledger.>": [],
  ">": [],
  "*": [],
  "live.>": ["gateway"],
  "live.ses_a.>": ["gateway"],
  "tasks.>": [],
  "reports.>": [],
  "questions.>": [],
  "questions.network": ["edge-scheduler"],
  "timers.>": [],
  "probes.>": [],
  "parked.>": [],
  "$KV.>": [],
  "$JS.>": [],
  "$JS.API.>": [],
  "$JS.EVENT.>": [],
  "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.*.*": ["edge-scheduler"],
  "$SYS.>": [],
  "_INBOX.>": [],
  ...Object.fromEntries(SERVICES.map((user) => [`_INBOX_${user}.>`, [user]])),
};
