import { once } from "node:events";
import { expect } from "chai";
import type { ProviderTask } from "#schemas/provider/task.ts";
import { Fatal, Retryable } from "#shared/errors/errors.ts";
import { type Log, silentLog } from "#shared/service/log.ts";
import { startTestNats, type TestNats } from "#shared/testing/nats.ts";
import type { NatsConnection } from "./connection.ts";
import {
  openReportReceiver,
  openReportSender,
  openTaskReceiver,
  openTaskSender,
  openTimerReceiver,
  openTimerSender,
} from "./work-queue.ts";
import { ATTEMPTS_MAX } from "./work-queues.ts";

describe("work queues in JetStream", () => {
  let nats: TestNats;
  let scheduler: NatsConnection;
  let provider: NatsConnection;
  let edge: NatsConnection;
  before(async () => {
    nats = await startTestNats();
    scheduler = await nats.connect("edge-scheduler");
    provider = await nats.connect("provider-local");
    edge = await nats.connect("edge-setup");
  });
  after(() => nats.close());

  const tasksLeft = async () => (await (await edge.jetstreamManager()).streams.info("TASKS")).state.messages;
  const send = (id: string) => openTaskSender({ nats: scheduler, provider: "local" }).send(id, task(id));
  const receive = (handle: (item: ProviderTask, signal: AbortSignal) => Promise<void>, log: Log = silentLog) =>
    openTaskReceiver({ nats: provider, provider: "local", log }).receive(handle);

  it("hands an item to the worker and forgets it when it is done", async () => {
    const done = Promise.withResolvers<ProviderTask>();
    const worker = await receive(async (item) => done.resolve(item));
    await send("tsk_done");
    expect(await done.promise).to.deep.equal(task("tsk_done"));
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("keeps what is sent while nobody works, in order, and stores the same id once", async () => {
    for (const id of ["tsk_a", "tsk_b", "tsk_a", "tsk_c"]) await send(id);
    const seen = collector<string>(3);
    const worker = await receive(async (item) => seen.add(item.taskId));
    expect(await seen.all).to.deep.equal(["tsk_a", "tsk_b", "tsk_c"]);
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("brings an item again after a Retryable", async () => {
    const seen = collector<string>(3);
    const worker = await receive(async (item) => {
      seen.add(item.taskId);
      if (seen.count() < 3) throw new Retryable("busy", "not yet", { retryAfterMs: 1 });
    });
    await send("tsk_again");
    expect(await seen.all).to.deep.equal(["tsk_again", "tsk_again", "tsk_again"]);
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("parks an item that failed for good, with the reason, and goes on with the next", async () => {
    const parked = await parkedMessages();
    const next = Promise.withResolvers<void>();
    const worker = await receive(async (item) => {
      if (item.taskId === "tsk_bad") throw new Fatal("broken", "cannot be done");
      next.resolve();
    });
    await send("tsk_bad");
    await send("tsk_good");
    await next.promise;
    expect(await parked()).to.deep.include({ code: "broken", reason: "cannot be done", taskId: "tsk_bad" });
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("parks an item that was tried too often", async () => {
    const parked = await parkedMessages();
    let attempts = 0;
    const worker = await receive(async () => {
      attempts += 1;
      throw new Retryable("never", "never works", { retryAfterMs: 1 });
    });
    await send("tsk_never");
    expect(await parked()).to.deep.include({ code: "queue_attempts", taskId: "tsk_never" });
    expect(attempts).to.equal(ATTEMPTS_MAX);
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("keeps an item in hand for as long as nothing can be appended to the ledger, and parks nothing", async () => {
    const done = Promise.withResolvers<void>();
    let attempts = 0;
    const worker = await receive(async () => {
      attempts += 1;
      if (attempts <= ATTEMPTS_MAX + 5) throw new Retryable("ledger_behind_mirror", "repair it", { retryAfterMs: 1 });
      done.resolve();
    });
    const parked = await parkedMessages();
    await send("tsk_waits");
    expect(await Promise.race([done.promise, parked()])).to.equal(undefined);
    await worker.close();
    expect(await tasksLeft()).to.equal(0);
  });

  it("gives back what waits for the ledger in its hand when it closes", async () => {
    const tried = Promise.withResolvers<void>();
    const waiting = await receive(async () => {
      tried.resolve();
      throw new Retryable("ledger_unavailable", "not now", { retryAfterMs: 60_000 });
    });
    await send("tsk_kept");
    await tried.promise;
    await waiting.close();
    expect(await tasksLeft()).to.equal(1);
    await (await edge.jetstreamManager()).streams.purge("TASKS");
  });

  it("says of a report that waited in its hand that newer ones may have been read meanwhile", async () => {
    const local = openReportSender({ nats: provider, reporter: "provider-local" });
    const seen = collector<boolean>(2);
    const worker = await openReportReceiver({ nats: scheduler, log: silentLog }).receive(async ({ redelivered }) => {
      seen.add(redelivered);
      if (seen.count() === 1) throw new Retryable("ledger_unavailable", "not now", { retryAfterMs: 1 });
    });
    await local.send("r_waits", {
      kind: "destroyed",
      sandboxId: "sbx_1",
      session: "ses_1",
      generation: 1,
      taskId: "tsk_1",
    });
    expect(await seen.all).to.deep.equal([false, true]);
    await worker.close();
  });

  it("parks what does not fit the schema", async () => {
    const parked = await parkedMessages();
    const worker = await receive(async () => expect.fail("nothing valid was sent"));
    await edge.jetstream().publish("tasks.local", JSON.stringify({ op: "format-disk", taskId: "tsk_strange" }));
    expect(await parked()).to.deep.include({ code: "queue_item_invalid", taskId: "tsk_strange" });
    await worker.close();
  });

  it("finishes what is in hand when it closes, and tells it to hurry", async () => {
    const started = Promise.withResolvers<void>();
    let finished = false;
    const worker = await receive(async (_item, signal) => {
      started.resolve();
      await once(signal, "abort");
      finished = true;
    });
    await send("tsk_hand");
    await started.promise;
    await worker.close();
    expect(finished).to.equal(true);
    expect(await tasksLeft()).to.equal(0);
  });

  it("says which reporter a report came from", async () => {
    const relay = openReportSender({ nats: await nats.connect("relay"), reporter: "relay" });
    const local = openReportSender({ nats: provider, reporter: "provider-local" });
    const seen = collector<string>(2);
    const worker = await openReportReceiver({ nats: scheduler, log: silentLog }).receive(async ({ reporter, report }) =>
      seen.add(`${reporter} ${report.kind}`),
    );
    await relay.send("r1", { kind: "joined", sandboxId: "sbx_1", generation: 1, bootId: "b" });
    await local.send("r2", { kind: "destroyed", sandboxId: "sbx_1", session: "ses_1", generation: 1, taskId: "tsk_1" });
    expect(await seen.all).to.deep.equal(["relay joined", "provider-local destroyed"]);
    await worker.close();
  });

  it("keeps a timer until it is due without holding up the next one", async () => {
    const core = await nats.connect("scheduler");
    const timers = openTimerSender({ nats: core });
    const dueAt = new Date(Date.now() + 300).toISOString();
    await timers.send("t1", { session: "ses_1", taskId: "tsk_late", dueAt });
    await timers.send("t2", { session: "ses_1", taskId: "tsk_early", dueAt: new Date(0).toISOString() });
    const seen = collector<string>(2);
    const worker = await openTimerReceiver({ nats: core, log: silentLog }).receive(async (item) => {
      const leftMs = Date.parse(item.dueAt) - Date.now();
      if (leftMs > 0) throw new Retryable("not_due", "later", { retryAfterMs: leftMs });
      seen.add(item.taskId);
    });
    expect(await seen.all).to.deep.equal(["tsk_early", "tsk_late"]);
    await worker.close();
  });

  it("C140: goes on after the server was killed, with what was stored before", async () => {
    const seen = new Set<string>();
    const all = Promise.withResolvers<void>();
    // What was done and not acknowledged before the kill comes twice.
    const worker = await receive(async (item) => {
      if (seen.add(item.taskId).size === 3) all.resolve();
    });
    await send("tsk_before");
    await nats.killAndStart();
    for (const id of ["tsk_after1", "tsk_after2"]) await sendUntilStored(id);
    await all.promise;
    expect([...seen].sort()).to.deep.equal(["tsk_after1", "tsk_after2", "tsk_before"]);
    await worker.close();
  });

  async function sendUntilStored(id: string): Promise<void> {
    await send(id).catch((error: unknown) => {
      if (error instanceof Retryable) return sendUntilStored(id);
      throw error;
    });
  }

  async function parkedMessages() {
    const arrived = Promise.withResolvers<object>();
    const subscription = edge.subscribe("parked.>", {
      max: 1,
      callback: (_error, message) => {
        const { taskId } = message.json<{ taskId: string }>();
        const header = (name: string) => message.headers?.get(name);
        arrived.resolve({ taskId, code: header("Pistis-Code"), reason: header("Pistis-Reason") });
      },
    });
    await edge.flush();
    return () => arrived.promise.finally(() => subscription.unsubscribe());
  }
});

function task(taskId: string): ProviderTask {
  return { op: "inspect", taskId, session: "ses_1", sandboxId: "sbx_1", generation: 1 };
}

/** Resolves `all` when that many items were added. */
function collector<Item>(wanted: number) {
  const items: Item[] = [];
  const all = Promise.withResolvers<Item[]>();
  return {
    all: all.promise,
    count: () => items.length,
    add: (item: Item) => {
      items.push(item);
      if (items.length === wanted) all.resolve(items);
    },
  };
}
