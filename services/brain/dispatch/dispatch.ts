// Which sessions this brain works on. It reacts to messages, ends of turns and requests to end a session.
//
// A ledger message is acknowledged only when what it asks for cannot be forgotten any more:
//   - a turn is open: the end of that turn comes here as a message of its own, and is looked at again then;
//   - nothing waits: there is nothing to forget;
//   - something waits: a turn was started, or another brain still holds the session. Then it is set aside
//     (held-sessions.ts), and the read model lists it as unsettled to every brain.

import { setTimeout as delay } from "node:timers/promises";
import { Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Lease, Leases } from "#shared/leases/leases.ts";
import { type Ledger, type LedgerMessage, NEW_SESSION } from "#shared/ledger/ledger.ts";
import type { Snapshots } from "#shared/ledger/snapshots.ts";
import { attention } from "../session/questions.ts";
import { SessionRecord } from "../session/record.ts";
import { Abandoned } from "../turn/context.ts";
import { type TurnDependencies, workOn } from "../turn/session-run.ts";
import { HeldSessions } from "./held-sessions.ts";
import { Troubles } from "./troubles.ts";
import { WARM_MS, WARM_SESSIONS_MAX, WarmRecords } from "./warm-records.ts";

export type DispatchDependencies = TurnDependencies &
  Readonly<{
    ledger: Ledger;
    leases: Leases;
    snapshots: Snapshots;
    /** How long an idle session's fold is kept. */
    warmMs?: number;
  }>;

/** A turn of this brain that has just ended is waited for; one that takes longer to let go is set aside. */
const LETTING_GO_MS = 200;
const CLOSING_RETRY_MS = 200;
const SWEEPS_PER_WARM_TIME = 4;
const CALLING = new Set(["MessagePosted", "TurnEnded", "SessionEndRequested"]);

export class Dispatch {
  readonly #dependencies: DispatchDependencies;
  readonly #records: WarmRecords;
  readonly #running = new Map<string, Promise<void>>();
  readonly #held: HeldSessions;
  readonly #keeping = new Set<Promise<void>>();
  /** Turns that were heard to start and not to end: should their brain die, the read model may be behind. */
  readonly #openTurns = new Set<string>();
  readonly #troubles = new Troubles(() => performance.now());
  readonly #closing = new AbortController();
  readonly #sweeping: NodeJS.Timeout;

  constructor(dependencies: DispatchDependencies) {
    this.#dependencies = dependencies;
    const { ledger, snapshots, warmMs = WARM_MS } = dependencies;
    const limits = { warmMs, sessionsMax: WARM_SESSIONS_MAX, now: () => performance.now() };
    this.#records = new WarmRecords((session) => new SessionRecord(ledger, session, snapshots), limits);
    this.#held = new HeldSessions((session) => this.#lookAgain(session), this.#closing.signal);
    this.#sweeping = setInterval(() => this.#sweep(), warmMs / SWEEPS_PER_WARM_TIME).unref();
  }

  /** What is in memory for sessions, by what it is. */
  get kept(): Readonly<{ records: number; running: number; held: number; openTurns: number }> {
    const { size: openTurns } = this.#openTurns;
    return { records: this.#records.size, running: this.#running.size, held: this.#held.size, openTurns };
  }

  /** One batch of a shard. Sessions do not wait for each other; the batch waits until each is settled. */
  async handle(messages: readonly LedgerMessage[]): Promise<void> {
    const bySession = Map.groupBy(messages, ({ session }) => session);
    const settled = [...bySession].map(([session, news]) => this.#hear(session, news));
    const failures = (await Promise.allSettled(settled)).filter((result) => result.status === "rejected");
    const worst = failures.find(({ reason }) => !(reason instanceof Retryable)) ?? failures[0];
    if (worst !== undefined) throw worst.reason;
  }

  /**
   * Goes on with sessions that nobody works on: those that the read model lists, and the open turns that were heard
   * of here. Nothing happens to a session that somebody holds.
   */
  async takeOverAll(unsettled: readonly string[]): Promise<void> {
    const sessions = new Set([...unsettled, ...this.#openTurns]);
    await Promise.all([...sessions].map((session) => this.#takeOver(session)));
  }

  /** Lets go of everything: open turns stay open, running commands go on, another brain asks about them. */
  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    this.#closing.abort(new Abandoned("The brain is stopping"));
    await Promise.all([this.#held.ended(), ...this.#running.values()]);
    await Promise.all(this.#keeping);
  }

  async #takeOver(session: string): Promise<void> {
    if (this.#running.has(session) || this.#closing.signal.aborted || this.#troubles.isResting(session)) return;
    const lease = await this.#dependencies.leases.acquire(session);
    if (lease === undefined) return;
    if (this.#running.has(session)) return lease.release();
    this.#openTurns.delete(session);
    await this.#work(session, lease, "go-on");
  }

  async #hear(session: string, news: readonly LedgerMessage[]): Promise<void> {
    const events = news.flatMap((message) => message.events);
    for (const { type } of events) {
      if (type === "TurnStarted" || type === "TurnTakenOver") this.#openTurns.add(session);
      if (type === "TurnEnded") this.#openTurns.delete(session);
    }
    // A session that is told from its beginning need not be read.
    const isNew = news[0]?.prev === NEW_SESSION.hash;
    const record = isNew ? this.#records.use(session) : this.#records.known(session);
    const isFolded = record?.absorb(news) ?? false;
    if (!events.some(({ type }) => CALLING.has(type))) return;
    if (!isFolded) await this.#records.use(session).catchUp();
    if (!(await this.#settle(session))) this.#held.add(session);
  }

  /** Resolves with false when another one holds the session, which still wants something. */
  async #settle(session: string): Promise<boolean> {
    for (;;) {
      const record = this.#records.use(session);
      const what = attention(record.state);
      if (what === "none" || what === "go-on") return true;
      if (this.#closing.signal.aborted) throw closing(session);
      if (what === "end-session") {
        step("brain.session.ending");
        await record.commit({ type: "EndSession" });
        step("brain.session.ended");
        continue;
      }
      const current = this.#running.get(session);
      if (current !== undefined) {
        await Promise.race([current, delay(LETTING_GO_MS, undefined, { ref: false })]);
        if (this.#running.get(session) === current) return false;
        continue;
      }
      const lease = await this.#dependencies.leases.acquire(session);
      if (lease === undefined) return false;
      await this.#work(session, lease, "start-turn");
    }
  }

  /** Resolves with true when the session is settled or another look would not help. */
  async #lookAgain(session: string): Promise<boolean> {
    try {
      await this.#records.use(session).catchUp();
      return await this.#settle(session);
    } catch (error) {
      if (error instanceof Retryable) return false;
      // Its turn was begun here and broke off, which #explain tells of and the read model lists.
      if (error instanceof Abandoned) return true;
      this.#explain(session, error);
      return true;
    }
  }

  /** Resolves when the turn is in the ledger, or there was none. The work itself goes on. */
  async #work(session: string, lease: Lease, wanted: "start-turn" | "go-on"): Promise<void> {
    step("brain.lease.acquired");
    const record = this.#records.use(session);
    const begun = Promise.withResolvers<void>();
    const run = this.#run(record, lease, { wanted, onTurn: begun.resolve }).finally(() => {
      this.#running.delete(session);
    });
    const guarded = run.catch((error: unknown) => this.#explain(session, error));
    this.#running.set(session, guarded);
    await Promise.race([begun.promise, run]);
  }

  async #run(
    record: SessionRecord,
    lease: Lease,
    { wanted, onTurn }: { wanted: "start-turn" | "go-on"; onTurn: () => void },
  ): Promise<void> {
    const abandon = AbortSignal.any([lease.lost, this.#closing.signal]);
    try {
      // A fold that is behind shows as a conflict at the first append. A turn to be taken over is told from a
      // read model, which may be behind itself, so that one is looked at first.
      if (wanted === "go-on") await record.catchUp();
      await workOn(this.#dependencies, record, { abandon, onTurn });
      this.#troubles.forget(record.session);
    } finally {
      step("brain.lease.releasing");
      await lease.release();
      step("brain.lease.released");
      this.#records.use(record.session);
      this.#keep(record);
    }
  }

  /** Nobody waits for it. */
  #keep(record: SessionRecord): void {
    const { session } = record;
    const keeping = record
      .keep((error) => this.#dependencies.log.warn({ session, err: error }, "the session's fold could not be kept"))
      .finally(() => this.#keeping.delete(keeping));
    this.#keeping.add(keeping);
  }

  #explain(session: string, error: unknown): void {
    const { log } = this.#dependencies;
    if (!(error instanceof Abandoned)) this.#troubles.note(session);
    if (error instanceof Abandoned) log.info({ session, reason: error.message }, "let go of the session");
    else log.error({ session, err: error }, "the session's work stopped; its turn stays open and is taken up again");
  }

  #sweep(): void {
    this.#records.sweep((session) => this.#running.has(session));
    this.#troubles.sweep();
  }
}

function closing(session: string): Retryable {
  return new Retryable("session_held", `${session} is left to another brain`, { retryAfterMs: CLOSING_RETRY_MS });
}
