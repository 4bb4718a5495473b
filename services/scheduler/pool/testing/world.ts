// Schedulers with a warm pool over a ledger, a provider and a relay in memory, worked off one piece at a time, so that a
// test can end a scheduler at any await and let another one go on.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { ProviderTask, Report, SandboxSpec } from "#schemas/provider/task.ts";
import { EMPTY_POOL, isPoolMember, type PoolRecord } from "#schemas/scheduler/pool.ts";
import type { ProbeTask } from "#schemas/scheduler/probe.ts";
import { Refusal, Retryable } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import { load } from "#shared/ledger/handle-command.ts";
import type { Ledger, LedgerMessage } from "#shared/ledger/ledger.ts";
import { memoryLedger } from "#shared/ledger/memory.ts";
import type { PoolRecordStore } from "#shared/nats/pool-record.ts";
import { silentLog } from "#shared/service/log.ts";
import { reportPlace } from "#shared/testing/report-place.ts";
import type { ReceivedReport } from "#shared/work-queue/work-queue.ts";
import { react } from "../../reactions.ts";
import { recordReport } from "../../reports.ts";
import { sessionOf } from "../../sandbox/sandbox.ts";
import { openSessions, type Sessions } from "../../sessions.ts";
import { handOver, type Pool, settleClaim } from "../handover.ts";
import { type Memory, newMemory, note, tend } from "../keeper.ts";
import { type Gate, type GuestRelay, openGate } from "./gate.ts";

const network = { mode: "none" as const };
export const spec: SandboxSpec = { image: null, memoryMiB: 64, cpuCores: 1, processesMax: 16, diskMiB: 64, network };
const CAUSE = { correlationId: "msg_1", causationId: null };

type Running = Readonly<{ gate: Gate; pool: Pool; memory: Memory; sessions: Sessions }>;
type Guest = { session: string; generation: number; bootId: string };

/** Everything that outlives a scheduler. */
export class World {
  readonly #ledger = memoryLedger();
  readonly #relay: GuestRelay;
  readonly messages: LedgerMessage[] = [];
  readonly guests: Map<string, Guest>;
  record: PoolRecord = EMPTY_POOL;
  #revision = 0;
  #handled = 0;
  readonly #tasks: ProviderTask[] = [];
  readonly #reports: ReceivedReport[] = [];
  #reported = 0;
  readonly #probes: ProbeTask[] = [];
  readonly #sent = new Set<string>();
  now = Date.parse("2026-11-30T12:00:00.000Z");
  size = 1;
  /** The provider refuses to make sandboxes. */
  failing = false;
  /** The provider does nothing for now. */
  silent = false;

  constructor(relay: GuestRelay) {
    this.#relay = relay;
    this.guests = relay.guests;
  }

  /** `crashAt`: the so-many-th await of this scheduler is its last. */
  startScheduler(crashAt = Number.POSITIVE_INFINITY): Running {
    const gate = openGate(crashAt);
    const inner = this.#ledger.open("scheduler");
    const ledger: Ledger = {
      read: (session, after) => gate(() => inner.read(session, after)),
      append: (...args) => gate(() => this.#noted(inner.append(...args))),
    };
    const sessions = openSessions(ledger);
    const record: PoolRecordStore = {
      read: () => gate(async () => ({ record: this.record, revision: this.#revision })),
      replace: (next, revision) => gate(async () => this.#replace(next, revision)),
    };
    const settings = { size: this.size, ageMsMax: 3_600_000, provider: "local" };
    const pool = { sessions, record, settings, relay: this.#relay, spec, startMs: 60_000, now: () => this.now };
    return { gate, sessions, memory: newMemory(), pool: { ...pool, log: silentLog } };
  }

  async append(writer: "gateway" | "brain", session: string, event: PistisEvent): Promise<void> {
    const ledger = this.#ledger.open(writer);
    const { version } = await load(ledger, { initialState: 0, evolve: () => 0 }, session);
    await this.#noted(ledger.append(session, version, [event], CAUSE));
  }

  async openSession(): Promise<string> {
    const session = newId("session");
    await this.append("gateway", session, {
      type: "SessionCreated",
      data: { title: "t", model: "script", provider: "local" },
    });
    return session;
  }

  need(session: string): Promise<void> {
    return this.append("brain", session, { type: "SandboxNeeded", data: { turnId: "trn_1", reason: "absent" } });
  }

  /** All that there is to do is done, by these schedulers side by side. Throws Crash when one of them has ended. */
  async workOff(...schedulers: readonly Running[]): Promise<void> {
    for (let turns = 0; turns < 1_000; turns++) {
      const busy = await Promise.all(schedulers.map((scheduler) => this.#workOnce(scheduler)));
      if (!busy.includes(true)) return;
    }
    throw new Error("There is no end to the work");
  }

  eventsOf(session: string): PistisEvent[] {
    return this.messages.filter((message) => message.session === session).flatMap(({ events }) => events);
  }

  members(): string[] {
    return [...new Set(this.messages.map(({ session }) => session))].filter(isPoolMember);
  }

  async #noted(appending: Promise<LedgerMessage>): Promise<LedgerMessage> {
    const message = await appending;
    this.messages.push(message);
    return message;
  }

  async #replace(next: PoolRecord, revision: number): Promise<boolean> {
    if (revision !== this.#revision) return false;
    this.record = next;
    this.#revision += 1;
    return true;
  }

  async #workOnce(scheduler: Running): Promise<boolean> {
    const task = this.silent ? undefined : this.#tasks.shift();
    if (task !== undefined) this.#perform(task);
    const worked = [
      await this.#handleMessage(scheduler),
      await this.#handleReport(scheduler),
      await this.#handleProbe(scheduler),
      await tend(scheduler.pool, scheduler.memory),
    ];
    return task !== undefined || worked.includes(true);
  }

  /** In order, and again by another one when its scheduler ended. */
  async #handleMessage({ pool, memory, gate, sessions }: Running): Promise<boolean> {
    const message = this.messages[this.#handled];
    if (message === undefined) return false;
    this.#handled += 1;
    const send = <Item>(name: string, queue: Item[]) => ({
      send: (id: string, item: Item) => gate(async () => this.#store(`${name} ${id}`, queue, item)),
    });
    const tasks = send("task", this.#tasks);
    const reacting = {
      sessions,
      tasks: () => tasks,
      probes: send("probe", this.#probes),
      timers: send("timer", []),
      relay: this.#relay,
      pool: {
        handOver: (needed: LedgerMessage) => handOver(pool, needed),
        settleClaim: (claimed: LedgerMessage) => settleClaim(pool, claimed),
        hear: (heard: Pick<LedgerMessage, "session">, event: PistisEvent) => note(memory, heard, event),
        hearOf: () => undefined,
      },
      spec,
      startMs: 60_000,
      log: silentLog,
    };
    try {
      await react(reacting, [message]);
    } catch (error) {
      this.#handled -= 1;
      throw error;
    }
    return true;
  }

  async #handleReport({ sessions, memory }: Running): Promise<boolean> {
    const received = this.#reports.shift();
    if (received === undefined) return false;
    const pool = { hearOf: (sandboxId: string) => note(memory, { session: sessionOf(sandboxId) }) };
    try {
      await recordReport({ sessions, network, pool, log: silentLog }, received);
    } catch (error) {
      this.#reports.push({ ...received, redelivered: true });
      if (!(error instanceof Retryable)) throw error;
    }
    return true;
  }

  async #handleProbe({ sessions }: Running): Promise<boolean> {
    const probe = this.#probes.shift();
    if (probe === undefined) return false;
    const findings = [{ target: "a host", expected: "closed", outcome: "unreachable", ok: true }] as const;
    try {
      await sessions.command({ type: "RecordProbe", ...probe, findings, durationMs: 1 });
    } catch (error) {
      // As the prober does: the sandbox has ended since it was asked for.
      if (error instanceof Refusal) return true;
      this.#probes.push(probe);
      throw error;
    }
    return true;
  }

  #store<Item>(id: string, queue: Item[], item: Item): void {
    if (this.#sent.has(id)) return;
    this.#sent.add(id);
    queue.push(item);
  }

  #perform(task: ProviderTask): void {
    const { sandboxId, session, generation, taskId } = task;
    const ref = { sandboxId, session, generation };
    switch (task.op) {
      case "create": {
        if (this.failing) {
          this.#report({ kind: "failed", ...ref, taskId, failure: { code: "no", message: "no" } });
          return;
        }
        const bootId = newId("event");
        this.guests.set(sandboxId, { session, generation, bootId });
        this.#report({ kind: "created", ...ref, taskId, durationMs: 1 });
        this.#report({ kind: "joined", sandboxId, generation, bootId }, "relay");
        return;
      }
      case "destroy":
        this.guests.delete(sandboxId);
        this.#report({ kind: "destroyed", ...ref, taskId });
        return;
      default:
        throw new Error(`Nobody asks for ${task.op} here`);
    }
  }

  /** The sandbox ends by itself. */
  kill(sandboxId: string): void {
    const guest = this.guests.get(sandboxId);
    if (guest === undefined) throw new Error(`${sandboxId} does not run`);
    this.guests.delete(sandboxId);
    const { session, generation } = guest;
    this.#report({ kind: "state", sandboxId, session, generation, state: "stopped", reason: "killed" });
  }

  /** As a provider does at its start. */
  reportRunning(sandboxId: string): void {
    const guest = this.guests.get(sandboxId);
    if (guest === undefined) throw new Error(`${sandboxId} does not run`);
    const { session, generation } = guest;
    this.#report({ kind: "state", sandboxId, session, generation, state: "running", reason: "" });
  }

  loseRecord(): void {
    this.record = EMPTY_POOL;
    this.#revision = 0;
  }

  #report(report: Report, reporter = "provider-local"): void {
    this.#reported += 1;
    this.#reports.push({ report, reporter, redelivered: false, place: reportPlace(this.#reported) });
  }
}
