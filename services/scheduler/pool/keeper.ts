// Keeps as many warm sandboxes as `sandboxes.warm` says. Every scheduler does; the record in KV, replaced by
// compare-and-swap, keeps them from making more together. A place in the record is taken before its sandbox is begun,
// and free only when the ledger says that nothing of it is left to do.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { isPoolMember, poolMemberOf } from "#schemas/scheduler/pool.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import { newId } from "#shared/ids/ids.ts";
import type { LedgerMessage } from "#shared/ledger/ledger.ts";
import { seenByRelay } from "../relay/seen-by-relay.ts";
import { type SessionSandbox, sessionOf } from "../sandbox/sandbox.ts";
import { type Pool, wantedOf } from "./handover.ts";
import { handoverOf } from "./member.ts";
import { type Listed, planPool, type Retirement, recordAfter, type Situation } from "./plan.ts";

const TICK_MS = 5_000;
/** A relay that restarts is back before, and its sandboxes with it. */
const LOST_AFTER_MS = 15_000;

/** What one scheduler remembers beside the ledger and the record. Losing it costs nothing but time. */
export type Memory = {
  /** Sessions whose sandbox was asked for. */
  waiting: Set<string>;
  /** Since when the relay has not seen a sandbox that had joined. */
  unseenSince: Map<string, number>;
  /** Warm sandboxes that were heard of; one that is in no record belongs to nobody. */
  heardOf: Set<string>;
};

export function newMemory(): Memory {
  return { waiting: new Set(), unseenSince: new Map(), heardOf: new Set() };
}

/** Looks once and does what there is to do. True: it changed something, so there may be more. */
export async function tend(pool: Pool, memory: Memory): Promise<boolean> {
  // Heard before the record is read, so that whatever has a place was listed by then.
  const heard = [...memory.heardOf];
  const { record, revision } = await pool.record.read();
  const strays = await retireStrays(pool, heard, record.members);
  for (const member of heard) memory.heardOf.delete(member);
  const situation = await look(pool, memory, record);
  const plan = planPool(situation);
  const failures = await retire(pool, plan.retire);
  const added = plan.add ? poolMemberOf(newId("session")) : undefined;
  const next = recordAfter(situation, plan, { failures, added });
  const isNew = JSON.stringify(next) !== JSON.stringify(record);
  if (isNew && !(await pool.record.replace(next, revision))) return true;
  for (const member of [...plan.begin, ...(added === undefined ? [] : [added])]) await begin(pool, member);
  return isNew || strays || plan.begin.length > 0;
}

async function look(pool: Pool, memory: Memory, record: Situation["record"]): Promise<Situation> {
  const { settings, startMs } = pool;
  return {
    record,
    listed: await Promise.all(record.members.map((member) => lookAt(pool, memory, member))),
    size: settings.size,
    wanted: wantedOf(pool),
    readyMs: startMs * 2,
    sessionsWait: await doSessionsWait(pool, memory),
    now: pool.now(),
  };
}

async function lookAt(pool: Pool, memory: Memory, session: string): Promise<Listed> {
  const state = await pool.sessions.now(session);
  const claimedBy = state.pool?.claimedBy;
  const isAdopted = claimedBy !== undefined && !state.ended && isTheirs(state, await pool.sessions.now(claimedBy));
  return { session, state, isAdopted, isLost: await isLost(pool, memory, session, state) };
}

function isTheirs({ sandbox: warm }: SessionSandbox, { sandbox }: SessionSandbox): boolean {
  return warm.status !== "absent" && sandbox.status !== "absent" && warm.sandboxId === sandbox.sandboxId;
}

async function isLost(pool: Pool, { unseenSince }: Memory, session: string, state: SessionSandbox): Promise<boolean> {
  const handover = state.ended || state.pool?.claimedBy !== undefined ? undefined : handoverOf(state);
  if (handover === undefined || (await seenByRelay(pool.relay, handover.sandboxId))?.online === true) {
    unseenSince.delete(session);
    return false;
  }
  const since = unseenSince.get(session) ?? pool.now();
  unseenSince.set(session, since);
  return pool.now() - since >= LOST_AFTER_MS;
}

async function doSessionsWait({ sessions }: Pool, { waiting }: Memory): Promise<boolean> {
  for (const session of [...waiting]) {
    const { sandbox } = await sessions.now(session);
    if (sandbox.status === "creating" || sandbox.status === "restarting") return true;
    waiting.delete(session);
  }
  return false;
}

/** Answers how many of them failed, counted by the one scheduler that retired them. */
async function retire({ sessions, log }: Pool, retirements: readonly Retirement[]): Promise<number> {
  let failures = 0;
  for (const { session, reason, isFailure } of retirements) {
    try {
      const facts = await sessions.command({ type: "RetirePoolMember", session, reason });
      if (facts.length === 0) continue;
      if (isFailure) failures += 1;
      log[isFailure ? "warn" : "info"]({ member: session, reason }, "A warm sandbox is deleted");
    } catch (error) {
      // A session was faster: it has it.
      if (!(error instanceof Refusal)) throw error;
    }
  }
  return failures;
}

async function begin({ sessions, settings, spec, now }: Pool, session: string): Promise<void> {
  const addedAt = new Date(now()).toISOString();
  await sessions.command({ type: "AddPoolMember", session, provider: settings.provider, spec, addedAt });
}

/** A sandbox is listed before it is begun: what lives unlisted lost its place with the record, and goes to nobody. */
async function retireStrays(pool: Pool, heard: readonly string[], listed: readonly string[]): Promise<boolean> {
  const reason = "it has no place in the pool's record";
  const strays: Retirement[] = [];
  for (const session of heard.filter((member) => !listed.includes(member))) {
    const state = await pool.sessions.now(session);
    if (state.pool?.claimedBy === undefined && !state.ended) strays.push({ session, reason, isFailure: false });
  }
  await retire(pool, strays);
  return strays.length > 0;
}

export type Keeper = Readonly<{
  /** Takes in what was appended: it may mean that there is something to do. */
  hear: (message: Pick<LedgerMessage, "session">, event: PistisEvent) => void;
  /** Takes in that somebody reported about this sandbox. */
  hearOf: (sandboxId: string) => void;
  close: () => Promise<void>;
}>;

/** Looks at start, whenever it hears of something, and every few seconds while there is, or should be, a pool. */
export function startKeeper(pool: Pool): Keeper {
  const memory = newMemory();
  const stop = new AbortController();
  let woken = Promise.withResolvers<void>();
  const wake = () => woken.resolve();
  const pause = async () => {
    const timer = pool.settings.size > 0 ? setTimeout(wake, TICK_MS) : undefined;
    await woken.promise;
    clearTimeout(timer);
    woken = Promise.withResolvers();
  };
  const keeping = (async () => {
    while (!stop.signal.aborted) {
      if (!(await tendSafely(pool, memory))) await pause();
    }
  })();
  return {
    hear: (message, event) => {
      if (note(memory, message, event)) wake();
    },
    hearOf: (sandboxId) => {
      if (note(memory, { session: sessionOf(sandboxId) })) wake();
    },
    close: async () => {
      stop.abort();
      wake();
      await keeping;
    },
  };
}

async function tendSafely(pool: Pool, memory: Memory): Promise<boolean> {
  try {
    return await tend(pool, memory);
  } catch (error) {
    pool.log.warn({ failure: failureOf(error) }, "The warm pool could not be looked after; it is tried again");
    return false;
  }
}

/** True when the pool may have something to do because of it. */
export function note(
  { waiting, heardOf }: Memory,
  { session }: Pick<LedgerMessage, "session">,
  event?: PistisEvent,
): boolean {
  if (isPoolMember(session)) {
    heardOf.add(session);
    return true;
  }
  switch (event?.type) {
    case "SandboxCreateRequested":
    case "SandboxRestartRequested":
      waiting.add(session);
      return false;
    case "SandboxJoined":
    case "SandboxFailed":
      return true;
    default:
      return false;
  }
}
