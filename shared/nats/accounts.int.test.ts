// Every user tries everything that it must not do. What a user may do is listed here again, by hand, so that a
// permission that grows by accident fails a test.
import { expect } from "chai";
import { ErrorCode, Events, type JetStreamManager, type NatsConnection, type NatsError, type StreamInfo } from "nats";
import { sha256 } from "#shared/ids/ids.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import {
  CORE_STREAMS,
  DURABLES,
  EDGE_STREAMS,
  MANAGEMENT,
  PUBLISHERS,
  READERS,
  SERVICES,
  type Service,
  STREAMS,
  worker,
} from "#shared/testing/nats-rights.ts";
import type { EDGE_USERS, NatsUser } from "./keys.ts";

const SHARDS = 2;
/** Stream and consumer of the work queues whose consumers a user may make anew. */
const MADE_ANEW: { [user in Service]?: readonly string[] } = {
  scheduler: ["TIMERS.scheduler", "PROBES.scheduler"],
  "edge-scheduler": ["REPORTS.scheduler", "TASKS.provider-local", "TASKS.provider-docker"],
};

describe("NATS accounts", () => {
  let nats: TestNats;
  let core: NatsConnection;
  let edge: NatsConnection;
  let untouched: Snapshot;

  before(async () => {
    nats = await startTestNats({ shards: SHARDS, leaseTtlMs: 600_000 });
    core = await nats.connect("setup");
    edge = await nats.connect("edge-setup");
    const jetstream = core.jetstream();
    for (const subject of ["ledger.0.ses_a", "ledger.1.ses_b", "ledger.0.ses_a", "$KV.leases.ses_a"]) {
      await jetstream.publish(subject, `first content of ${subject}`);
    }
    untouched = await snapshot();
  });
  after(() => nats.close());
  afterEach(async () => {
    expect(await snapshot()).to.deep.equal(untouched);
  });

  for (const user of SERVICES) {
    describe(user, () => {
      it("publishes nowhere but where it has to", async () => {
        await expectRefused(user, "publish", notFor(PUBLISHERS, user));
      });

      it("manages no stream and no consumer, not even its own, but makes work queues' deaf ones anew", async () => {
        const made = MADE_ANEW[user] ?? [];
        await expectRefused(
          user,
          "publish",
          MANAGEMENT.filter((subject) => !made.some((of) => subject === `$JS.API.CONSUMER.DELETE.${of}`)),
        );
      });

      it("does not touch the durable consumers of others", async () => {
        const foreign = DURABLES.filter(([stream, consumer]) => worker(stream, consumer) !== user);
        expect(foreign.length).to.be.greaterThan(0);
        const made = MADE_ANEW[user] ?? [];
        await expectRefused(
          user,
          "publish",
          foreign
            .flatMap(([stream, consumer]) => [
              `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`,
              `$JS.API.CONSUMER.INFO.${stream}.${consumer}`,
              `$JS.ACK.${stream}.${consumer}.1.1.1.1700000000000000000.0`,
            ])
            .filter((subject) => !made.some((of) => subject === `$JS.API.CONSUMER.INFO.${of}`)),
        );
      });

      it("listens nowhere but where it has to", async () => {
        await expectRefused(user, "subscribe", notFor(READERS, user));
      });
    });
  }

  it("reads messages only of the streams that it works with", async () => {
    const read = (stream: string) => [
      `$JS.API.STREAM.INFO.${stream}`,
      `$JS.API.STREAM.MSG.GET.${stream}`,
      `$JS.API.DIRECT.GET.${stream}`,
      `$JS.API.DIRECT.GET.${stream}.some.subject`,
    ];
    const foreign = (own: readonly string[], looked: readonly string[] = []) =>
      STREAMS.filter((stream) => !own.includes(stream))
        .flatMap(read)
        .filter((subject) => !looked.some((stream) => subject === `$JS.API.STREAM.INFO.${stream}`));
    for (const user of ["gateway", "publisher", "projector"] as const) {
      await expectRefused(user, "publish", foreign(["LEDGER"]));
    }
    await expectRefused("brain", "publish", foreign(["LEDGER", "KV_leases"]));
    await expectRefused("scheduler", "publish", foreign(["LEDGER", "KV_pool"], ["TIMERS", "PROBES"]));
    await expectRefused("edge-scheduler", "publish", foreign([], ["TASKS", "REPORTS"]));
    for (const user of ["provider-local", "provider-docker", "relay", "egress"] as const) {
      await expectRefused(user, "publish", foreign([]));
    }
  });

  describe("a consumer made to follow the ledger", () => {
    for (const user of ["gateway", "brain"] as const) {
      it(`cannot take the name of a durable one, nor deliver into the ledger (${user})`, async () => {
        const connection = await nats.connect(user);
        const create = async (config: object) => {
          const about = { name: "follow_x", ack_policy: "none", deliver_policy: "all", filter_subject: "ledger.*.*" };
          const request = JSON.stringify({ stream_name: "LEDGER", config: { ...about, ...config } });
          const reply = await connection.request("$JS.API.CONSUMER.CREATE.LEDGER.follow_x.ledger.*.*", request);
          return reply.json<{ name?: string; error?: { err_code: number } }>();
        };
        const NAMES_DIFFER = 10_017;
        const CYCLE = 10_081;
        expect((await create({ durable_name: "publisher-0" })).error?.err_code).to.equal(NAMES_DIFFER);
        expect((await create({ deliver_subject: "ledger.0.ses_a" })).error?.err_code).to.equal(CYCLE);
        expect((await create({ name: "publisher-0" })).name).to.equal("follow_x");
        await connection.request("$JS.API.CONSUMER.DELETE.LEDGER.follow_x");
      });
    }
  });

  describe("a reply subject forged in EDGE", () => {
    const next = JSON.stringify({ batch: 1, no_wait: true });
    /** By user: requests that it may make, to which the server itself answers. */
    const questions: { [user in (typeof EDGE_USERS)[number]]: [string, string][] } = {
      "edge-scheduler": [
        ["tasks.local", "{}"],
        ["$JS.API.CONSUMER.INFO.REPORTS.scheduler", ""],
        ["$JS.API.CONSUMER.MSG.NEXT.REPORTS.scheduler", next],
      ],
      "provider-local": [
        ["reports.provider-local", "{}"],
        ["$JS.API.CONSUMER.INFO.TASKS.provider-local", ""],
        ["$JS.API.CONSUMER.MSG.NEXT.TASKS.provider-local", next],
      ],
      "provider-docker": [["$JS.API.CONSUMER.MSG.NEXT.TASKS.provider-docker", next]],
      relay: [["reports.relay", "{}"]],
      egress: [["reports.egress", "{}"]],
      "edge-setup": [
        ["$JS.API.INFO", ""],
        ["$JS.API.STREAM.INFO.LEDGER", ""],
        ["$JS.API.STREAM.NAMES", ""],
      ],
    };
    const targets = [
      "ledger.0.ses_a",
      "$KV.leases.ses_a",
      "timers.scheduler",
      "$JS.API.STREAM.PURGE.LEDGER",
      "$JS.API.STREAM.DELETE.LEDGER",
    ];

    for (const [user, asked] of Object.entries(questions)) {
      it(`is answered in EDGE alone, and the ledger is as it was (${user})`, async () => {
        const connection = await nats.connect(user as NatsUser);
        for (const [subject, payload] of asked) {
          for (const target of targets) await forge(connection, { subject, payload, target });
        }
        await emptyEdge();
      });
    }
  });

  it("EDGE users know no subject of CORE: what they publish there under its name does not arrive", async () => {
    const arrived: string[] = [];
    const subscription = core.subscribe(">", { callback: (_error, message) => arrived.push(message.subject) });
    await core.flush();
    edge.publish("ledger.0.ses_a", "forged");
    edge.publish("live.ses_a.text-delta", "forged");
    await edge.flush();
    await core.flush();
    subscription.unsubscribe();
    expect(arrived.filter((subject) => /^(ledger|live)\./.test(subject))).to.deep.equal([]);
  });

  /** Resolves when the server has answered to `target`, seen by someone who may see all of EDGE. */
  async function forge(attacker: NatsConnection, attempt: { subject: string; payload: string; target: string }) {
    const answered = Promise.withResolvers<void>();
    const subscription = edge.subscribe(attempt.target, { max: 1, callback: () => answered.resolve() });
    await edge.flush();
    attacker.publish(attempt.subject, attempt.payload, { reply: attempt.target });
    await answered.promise;
    subscription.unsubscribe();
  }

  /** EDGE has no stream LEDGER and no secret; what the attempts left in its own queues is taken away again. */
  async function emptyEdge(): Promise<void> {
    const manager = await edge.jetstreamManager();
    for (const stream of ["TASKS", "REPORTS"]) await manager.streams.purge(stream);
  }

  async function expectRefused(user: Service, operation: "publish" | "subscribe", subjects: readonly string[]) {
    const connection = await nats.connect(user);
    const refused = collector(subjects.length);
    if (operation === "publish") publishAll(connection, subjects, `_INBOX_${user}.answer`, refused.add);
    else subscribeAll(connection, subjects, refused.add);
    await connection.flush();
    expect(await refused.all).to.have.members(subjects);
    await connection.close();
  }

  async function snapshot(): Promise<Snapshot> {
    const coreManager = await core.jetstreamManager();
    const edgeManager = await edge.jetstreamManager();
    const parts = [
      ...CORE_STREAMS.map((stream) => describeStream(coreManager, stream)),
      ...EDGE_STREAMS.map((stream) => describeConfig(edgeManager, stream)),
    ];
    return Promise.all(parts);
  }
});

type Snapshot = object[];

function notFor(table: { [subject: string]: readonly Service[] }, user: Service): string[] {
  return Object.keys(table).filter((subject) => !table[subject]?.includes(user));
}

/** Resolves when there are that many different ones. */
function collector(wanted: number) {
  const seen = new Set<string>();
  const all = Promise.withResolvers<string[]>();
  const add = (subject: string) => {
    seen.add(subject);
    if (seen.size === wanted) all.resolve([...seen]);
  };
  return { add, all: all.promise };
}

function publishAll(
  connection: NatsConnection,
  subjects: readonly string[],
  reply: string,
  refused: (subject: string) => void,
): void {
  void (async () => {
    for await (const status of connection.status()) {
      if (status.type === Events.Error && status.permissionContext?.operation === "publish")
        refused(status.permissionContext.subject);
    }
  })();
  for (const subject of subjects) connection.publish(subject, "x", { reply });
}

function subscribeAll(
  connection: NatsConnection,
  subjects: readonly string[],
  refused: (subject: string) => void,
): void {
  for (const subject of subjects) {
    const callback = (error: NatsError | null) => {
      if (error?.code === ErrorCode.PermissionsViolation) refused(subject);
    };
    connection.subscribe(subject, { callback });
  }
}

async function describeStream(manager: JetStreamManager, name: string): Promise<object> {
  const info = await manager.streams.info(name);
  const hashes: string[] = [];
  for (let seq = info.state.first_seq; seq > 0 && seq <= info.state.last_seq; seq++) {
    const message = await manager.streams.getMessage(name, { seq });
    hashes.push(`${seq} ${message.subject} ${sha256(message.data)}`);
  }
  return { ...(await describeConfig(manager, name, info)), hashes };
}

async function describeConfig(manager: JetStreamManager, name: string, known?: StreamInfo): Promise<object> {
  const { config, created } = known ?? (await manager.streams.info(name));
  const consumers = [];
  for await (const consumer of manager.consumers.list(name)) {
    if (name === "LEDGER" || name === "TIMERS") consumers.push([consumer.config, consumer.ack_floor]);
    else consumers.push([consumer.config]);
  }
  return { name, config, created, consumers };
}
