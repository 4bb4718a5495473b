// Which sessions this brain works on. It reacts to messages, ends of turns and requests to end a session.
//
// A ledger message is acknowledged only when what it asks for cannot be forgotten any more:
//   - a turn is open: the end of that turn comes here as a message of its own, and is looked at again then;
//   - nothing waits: there is nothing to forget;
//   - something waits: a turn was started, or the message comes again (Retryable) because another brain still
//     holds the session. That is a matter of milliseconds (it has ended its turn and lets go), or of the lease's
//     life when that brain died just then.

import { Retryable } from "#shared/errors/errors.ts";
import { step } from "#shared/faults/step.ts";
import type { Lease, Leases } from "#shared/leases/leases.ts";
import type { Ledger, LedgerMessage } from "#shared/ledger/ledger.ts";
import { attention } from "../session/questions.ts";
import { SessionRecord } from "../session/record.ts";
import { Abandoned } from "../turn/context.ts";
import { type TurnDependencies, workOn } from "../turn/session-run.ts";
import { Troubles } from "./troubles.ts";

export type DispatchDependencies = TurnDependencies & Readonly<{ ledger: Ledger; leases: Leases }>;

/** Folds that are kept for sessions which nobody works on, so that the next message needs no read. */
export const WARM_SESSIONS_MAX = 256;
const HELD_RETRY_MS = 200;
const CALLING = new Set(["MessagePosted", "TurnEnded", "SessionEndRequested"]);

export class Dispatch {
  readonly #dependencies: DispatchDependencies;
  readonly #records = new Map<string, SessionRecord>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #troubles = new Troubles(() => performance.now());
  readonly #closing = new AbortController();

  constructor(dependencies: DispatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** One batch of a shard. Sessions do not wait for each other; the batch waits until each is settled. */
  async handle(messages: readonly LedgerMessage[]): Promise<void> {
    const bySession = Map.groupBy(messages, ({ session }) => session);
    const settled = [...bySession].map(([session, news]) => this.#hear(session, news));
    const failures = (await Promise.allSettled(settled)).filter((result) => result.status === "rejected");
    const worst = failures.find(({ reason }) => !(reason instanceof Retryable)) ?? failures[0];
    if (worst !== undefined) throw worst.reason;
  }

  /** Goes on with the open turn of a session whose brain is gone. Nothing happens while somebody holds it. */
  async takeOver(session: string): Promise<void> {
    if (this.#running.has(session) || this.#closing.signal.aborted || this.#troubles.isResting(session)) return;
    const lease = await this.#dependencies.leases.acquire(session);
    if (lease === undefined) return;
    if (this.#running.has(session)) return lease.release();
    await this.#work(session, lease, "go-on");
  }

  /** Lets go of everything: open turns stay open, running commands go on, another brain asks about them. */
  async close(): Promise<void> {
    this.#closing.abort(new Abandoned("The brain is stopping"));
    await Promise.all(this.#running.values());
  }

  async #hear(session: string, news: readonly LedgerMessage[]): Promise<void> {
    const calls = news.some(({ events }) => events.some(({ type }) => CALLING.has(type)));
    const record = this.#records.get(session);
    const isFolded = record?.absorb(news) ?? false;
    if (!calls) return;
    if (!isFolded) await this.#record(session).catchUp();
    await this.#settle(session);
  }

  async #settle(session: string): Promise<void> {
    for (;;) {
      const record = this.#record(session);
      const what = attention(record.state);
      if (what === "none" || what === "go-on") return;
      if (this.#closing.signal.aborted) throw heldElsewhere(session);
      if (what === "end-session") {
        step("brain.session.ending");
        await record.commit({ type: "EndSession" });
        step("brain.session.ended");
        continue;
      }
      const current = this.#running.get(session);
      if (current !== undefined) {
        await current;
        continue;
      }
      const lease = await this.#dependencies.leases.acquire(session);
      if (lease === undefined) throw heldElsewhere(session);
      await this.#work(session, lease, "start-turn");
    }
  }

  /** Resolves when the turn is in the ledger, or there was none. The work itself goes on. */
  async #work(session: string, lease: Lease, wanted: "start-turn" | "go-on"): Promise<void> {
    step("brain.lease.acquired");
    const record = this.#record(session);
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
    }
  }

  #explain(session: string, error: unknown): void {
    const { log } = this.#dependencies;
    if (!(error instanceof Abandoned)) this.#troubles.note(session);
    if (error instanceof Abandoned) log.info({ session, reason: error.message }, "let go of the session");
    else log.error({ session, err: error }, "the session's work stopped; its turn stays open and is taken up again");
  }

  #record(session: string): SessionRecord {
    const record = this.#records.get(session) ?? new SessionRecord(this.#dependencies.ledger, session);
    // The newest stand last, so that the first ones are those that nobody asked for the longest.
    this.#records.delete(session);
    this.#records.set(session, record);
    if (this.#records.size > WARM_SESSIONS_MAX) this.#forgetOne();
    return record;
  }

  #forgetOne(): void {
    const idle = [...this.#records.keys()].find((session) => !this.#running.has(session));
    if (idle !== undefined) this.#records.delete(idle);
  }
}

function heldElsewhere(session: string): Retryable {
  return new Retryable("session_held", `${session} is still held by another brain`, { retryAfterMs: HELD_RETRY_MS });
}
