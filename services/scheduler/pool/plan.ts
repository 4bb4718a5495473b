// What the pool has to do next, from what is known of its sandboxes. Pure: the keeper reads, asks here and acts.
import { EMPTY_POOL, type PoolRecord } from "#schemas/scheduler/pool.ts";
import type { SessionSandbox } from "../sandbox/sandbox.ts";
import { handoverOf, misfit, type Wanted, wasStartedAnew } from "./member.ts";

export type Listed = Readonly<{
  session: string;
  state: SessionSandbox;
  /** The session that claimed it has it in its ledger. */
  isAdopted: boolean;
  /** It joined, and the relay has not seen it for too long. */
  isLost: boolean;
}>;

export type Situation = Readonly<{
  record: PoolRecord;
  listed: readonly Listed[];
  /** `sandboxes.warm` */
  size: number;
  wanted: Wanted;
  /** How long a sandbox may take until it is ready. */
  readyMs: number;
  /** Sessions wait for a sandbox of their own: they come first. */
  sessionsWait: boolean;
  now: number;
}>;

export type Retirement = Readonly<{ session: string; reason: string; isFailure: boolean }>;

export type Plan = Readonly<{
  /** In the record and not begun: whoever listed it died, or is just about to. */
  begin: readonly string[];
  retire: readonly Retirement[];
  /** Nothing of them is left to do, so their places are free. */
  forget: readonly string[];
  /** There is room for one more, and no reason to wait. */
  add: boolean;
  /** Sandboxes are good again. */
  isHealthy: boolean;
}>;

/** One that ended this soon is taken for a failure, so that a pool which only makes corpses slows down. */
export const YOUNG_MS = 60_000;
const WAIT_MS_FIRST = 1_000;
const WAIT_MS_MAX = 5 * 60_000;

export function planPool(situation: Situation): Plan {
  const { record, listed, size, sessionsWait, now } = situation;
  const forget = listed.filter((member) => isOver(member, situation));
  const rest = listed.filter((member) => !forget.includes(member));
  const begin = rest.filter(({ state }) => !state.ended && state.pool === undefined);
  const retire = retirements(rest, situation);
  const waits = record.waitUntil !== null && Date.parse(record.waitUntil) > now;
  const isStarting = rest.some((member) => isAlive(member) && handoverOf(member.state) === undefined);
  const isFull = rest.length >= size;
  return {
    begin: (retire.length === 0 ? begin : without(begin, retire)).map(({ session }) => session),
    retire,
    forget: forget.map(({ session }) => session),
    add: !isFull && !waits && !isStarting && !sessionsWait && retire.length === 0,
    isHealthy: listed.some((member) => isGood(member, situation)),
  };
}

/** The record after the plan, in which `failures` of its retirements were failures. */
export function recordAfter(
  { record, now }: Pick<Situation, "record" | "now">,
  { forget, isHealthy }: Pick<Plan, "forget" | "isHealthy">,
  { failures, added }: { failures: number; added: string | undefined },
): PoolRecord {
  const members = record.members.filter((member) => !forget.includes(member));
  const kept = { ...record, members: added === undefined ? members : [...members, added] };
  if (failures > 0) {
    const failuresInRow = record.failuresInRow + failures;
    return { ...kept, failuresInRow, waitUntil: new Date(now + waitMs(failuresInRow)).toISOString() };
  }
  return isHealthy ? { ...EMPTY_POOL, members: kept.members } : kept;
}

function waitMs(failuresInRow: number): number {
  return Math.min(WAIT_MS_FIRST * 2 ** (failuresInRow - 1), WAIT_MS_MAX);
}

/** A session has it, or it is deleted. One of a provider that is not asked any more may take its time with that. */
function isOver({ state, isAdopted }: Listed, { wanted }: Situation): boolean {
  const { pool, ended, sandbox } = state;
  if (isAdopted) return true;
  if (!ended) return false;
  if (pool !== undefined && pool.provider !== wanted.provider) return true;
  return sandbox.status === "absent" || sandbox.status === "destroyed" || sandbox.status === "undeletable";
}

/** Neither deleted nor a session's. */
function isAlive({ state }: Listed): boolean {
  return !state.ended && state.pool?.claimedBy === undefined;
}

function isGood({ state, isAdopted }: Listed, { now }: Situation): boolean {
  if (isAdopted) return true;
  return state.pool !== undefined && !state.ended && handoverOf(state) !== undefined && !isYoung(state.pool, now);
}

function isYoung({ addedAt }: { addedAt: string }, now: number): boolean {
  return now - Date.parse(addedAt) < YOUNG_MS;
}

function without(members: readonly Listed[], retired: readonly Retirement[]): readonly Listed[] {
  return members.filter(({ session }) => retired.every((one) => one.session !== session));
}

function retirements(members: readonly Listed[], situation: Situation): Retirement[] {
  const alive = members.filter(isAlive);
  const unfit = alive.flatMap((member) => unfitness(member, situation));
  const surplus = without(alive, unfit).slice(situation.size);
  const reason = "sandboxes.warm asks for fewer";
  return [...unfit, ...surplus.map(({ session }) => ({ session, reason, isFailure: false }))];
}

function unfitness({ session, state, isLost }: Listed, { wanted, readyMs, now }: Situation): Retirement[] {
  const { pool, sandbox } = state;
  if (pool === undefined) return [];
  const because = (reason: string, isFailure: boolean) => [{ session, reason, isFailure }];
  const reason = misfit(pool, wanted, now);
  if (reason !== undefined) return because(reason, false);
  switch (sandbox.status) {
    case "failed":
      return because("it could not be started", true);
    case "stopped":
    case "missing":
      return because(`it is ${sandbox.status}`, isYoung(pool, now));
    default:
      if (pool.probeFailed) return because("its network is not as it should be", true);
      if (wasStartedAnew(state)) return because("it was started anew", false);
      if (isLost) return because("it is not connected to the relay", isYoung(pool, now));
      if (handoverOf(state) === undefined && now - Date.parse(pool.addedAt) > readyMs) {
        return because(`it was not ready within ${readyMs} ms`, true);
      }
      return [];
  }
}
