// What each NATS user may publish and subscribe to. Everything else is refused by the server.
//
// The two accounts share no subject. That, not these lists, is what keeps EDGE out of the ledger: a user that may
// ask JetStream anything can name any subject as the reply, and the server itself then publishes there. Within one
// account that reaches every stream, and JetStream's own API too: an empty answer, sent to the API's subject, deletes
// a stream. So CORE is for services that are trusted with the ledger, and nothing in EDGE may be worth more than a
// task or a report.
import {
  LEASES_BUCKET,
  LEDGER_STREAM,
  NETWORK_QUESTIONS_SUBJECT,
  POOL_BUCKET,
  PROBES_STREAM,
  PROBES_SUBJECT,
  parkedSubject,
  REPORTS_STREAM,
  TASKS_STREAM,
  TIMERS_STREAM,
  TIMERS_SUBJECT,
} from "#schemas/ledger/subjects.ts";
import type { CORE_USERS, EDGE_USERS } from "./keys.ts";
import { CORE_QUEUES, EDGE_QUEUES, type WorkQueue } from "./work-queues.ts";

export type Permissions = Readonly<{
  publish: readonly string[];
  deny: readonly string[];
  subscribe: readonly string[];
}>;

/** Services with durable consumers on the ledger, one per shard. */
export const REACTORS = ["brain", "scheduler", "publisher", "projector"] as const;
export type Reactor = (typeof REACTORS)[number];

const LEDGER_SUBJECTS = "ledger.*.*";

export function ledgerConsumer(service: Reactor, shard: number): string {
  return `${service}-${shard}`;
}

/** CORE. `setup` may do everything in the account: it creates streams and consumers and is then closed. */
export function corePermissions(user: (typeof CORE_USERS)[number], shards: number): Permissions | undefined {
  switch (user) {
    case "setup":
      return undefined;
    case "gateway":
      return permissions(user, [writesLedger, readsLedger, followsLedger(shards)], { subscribe: ["live.>"] });
    case "brain":
      return permissions(
        user,
        [writesLedger, readsLedger, followsLedger(shards), reactsToLedger(user, shards), usesBucket(LEASES_BUCKET)],
        { publish: ["live.>"] },
      );
    case "scheduler":
      return permissions(user, [
        writesLedger,
        readsLedger,
        followsLedger(shards),
        reactsToLedger(user, shards),
        usesBucket(POOL_BUCKET),
        { publish: [TIMERS_SUBJECT, PROBES_SUBJECT] },
        worksOff(TIMERS_STREAM, "scheduler"),
        worksOff(PROBES_STREAM, "scheduler"),
        makesAnew(CORE_QUEUES),
      ]);
    case "publisher":
      return permissions(user, [writesLedger, readsLedger, followsLedger(shards), reactsToLedger(user, shards)], {
        publish: ["live.*.progress"],
      });
    case "projector":
      return permissions(user, [readsLedger, reactsToLedger(user, shards)]);
  }
}

/** EDGE. A provider takes tasks of its own kind and reports under its own name; relay and egress service report. */
export function edgePermissions(user: (typeof EDGE_USERS)[number]): Permissions | undefined {
  switch (user) {
    case "edge-setup":
      return undefined;
    case "edge-scheduler":
      return permissions(
        user,
        [{ publish: ["tasks.*", "_INBOX_egress.>"] }, worksOff(REPORTS_STREAM, "scheduler"), makesAnew(EDGE_QUEUES)],
        { subscribe: ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.*.*", NETWORK_QUESTIONS_SUBJECT] },
      );
    case "provider-local":
    case "provider-docker":
      return permissions(user, [{ publish: [`reports.${user}`] }, worksOff(TASKS_STREAM, user)]);
    case "relay":
      return permissions(user, [{ publish: [`reports.${user}`] }]);
    case "egress":
      return permissions(user, [{ publish: [`reports.${user}`, NETWORK_QUESTIONS_SUBJECT] }]);
  }
}

type Grant = Partial<Permissions>;

const writesLedger: Grant = { publish: [LEDGER_SUBJECTS] };

const readsLedger: Grant = {
  publish: [
    "$JS.API.INFO",
    `$JS.API.STREAM.INFO.${LEDGER_STREAM}`,
    `$JS.API.STREAM.MSG.GET.${LEDGER_STREAM}`,
    `$JS.API.DIRECT.GET.${LEDGER_STREAM}`,
    `$JS.API.DIRECT.GET.${LEDGER_STREAM}.>`,
  ],
};

function usesBucket(name: string): Grant {
  return {
    publish: [`$KV.${name}.*`, `$JS.API.STREAM.INFO.KV_${name}`, `$JS.API.DIRECT.GET.KV_${name}.>`],
  };
}

function reactsToLedger(service: Reactor, shards: number): Grant {
  const own = shardNumbers(shards).map((shard) => ledgerConsumer(service, shard));
  return {
    publish: own.flatMap((consumer) => [...pulls(LEDGER_STREAM, consumer), parkedSubject(LEDGER_STREAM, consumer)]),
  };
}

/**
 * Following, and reading a long tail, make a consumer of their own, with a name that nobody knows before. The server
 * cannot limit names by prefix, so all are allowed and every durable name is denied (pulling from one's own is what `reactsToLedger` is for).
 * The form without a name in the subject stays forbidden: it would take the name from the request's body.
 */
function followsLedger(shards: number): Grant {
  const durables = REACTORS.flatMap((service) => shardNumbers(shards).map((shard) => ledgerConsumer(service, shard)));
  return {
    publish: [
      `$JS.API.CONSUMER.CREATE.${LEDGER_STREAM}.*.>`,
      `$JS.API.CONSUMER.INFO.${LEDGER_STREAM}.*`,
      `$JS.API.CONSUMER.MSG.NEXT.${LEDGER_STREAM}.*`,
      `$JS.API.CONSUMER.DELETE.${LEDGER_STREAM}.*`,
      `$JS.FC.${LEDGER_STREAM}.>`,
    ],
    deny: durables.flatMap((consumer) => [
      `$JS.API.CONSUMER.CREATE.${LEDGER_STREAM}.${consumer}.>`,
      `$JS.API.CONSUMER.DELETE.${LEDGER_STREAM}.${consumer}`,
      `$JS.API.CONSUMER.INFO.${LEDGER_STREAM}.${consumer}`,
      `$JS.API.CONSUMER.MSG.NEXT.${LEDGER_STREAM}.${consumer}`,
    ]),
  };
}

function worksOff(stream: string, consumer: string): Grant {
  return { publish: [...pulls(stream, consumer), parkedSubject(stream, consumer)] };
}

/** Of work queues, for a consumer that went deaf: queue-watch.ts. The server holds it to the filter in the subject. */
function makesAnew(queues: readonly WorkQueue[]): Grant {
  return {
    publish: queues.flatMap(({ stream, consumer, filter }) => [
      `$JS.API.STREAM.INFO.${stream}`,
      `$JS.API.CONSUMER.INFO.${stream}.${consumer}`,
      `$JS.API.CONSUMER.DELETE.${stream}.${consumer}`,
      `$JS.API.CONSUMER.CREATE.${stream}.${consumer}.${filter}`,
    ]),
  };
}

function pulls(stream: string, consumer: string): string[] {
  return [
    `$JS.API.CONSUMER.INFO.${stream}.${consumer}`,
    `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`,
    `$JS.ACK.${stream}.${consumer}.>`,
  ];
}

function permissions(user: string, grants: readonly Grant[], more: Grant = {}): Permissions {
  const all = [...grants, more];
  const publish = all.flatMap((grant) => grant.publish ?? []);
  return {
    publish,
    deny: all.flatMap((grant) => grant.deny ?? []).filter((subject) => !publish.includes(subject)),
    subscribe: [`_INBOX_${user}.>`, ...all.flatMap((grant) => grant.subscribe ?? [])],
  };
}

function shardNumbers(shards: number): number[] {
  return Array.from({ length: shards }, (_, shard) => shard);
}
