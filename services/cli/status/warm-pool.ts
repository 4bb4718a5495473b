// The warm pool as `pistis status` shows it: which sandboxes it has, and what the ledger says of each.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import { EMPTY_POOL, type PoolRecord } from "#schemas/scheduler/pool.ts";
import { mirrorReader } from "#shared/database/mirror.ts";
import { Retryable } from "#shared/errors/errors.ts";
import type { LedgerReader } from "#shared/ledger/ledger.ts";
import { openLedger } from "#shared/nats/ledger/jetstream-ledger.ts";
import { openPoolRecord } from "#shared/nats/pool-record.ts";
import type { Stores } from "../ledger/stores.ts";

export type WarmPoolStatus = Readonly<{
  ready: number;
  /** Wanted, being made or being probed. */
  starting: number;
  /** A session has claimed it and is about to have it. */
  claimed: number;
  deleting: number;
  failuresInRow: number;
  /** No sandbox is made before, as the last ones failed. */
  waitUntil: string | null;
}>;

type MemberState = "ready" | "starting" | "claimed" | "deleting";

export async function readWarmPool({ nats, database, blobs, shards }: Stores): Promise<WarmPoolStatus> {
  const { members, failuresInRow, waitUntil } = await recordOf(nats);
  const mirror = mirrorReader(database);
  const ledger: LedgerReader = openLedger({ nats, writer: "scheduler", shards, blobs, mirror });
  const states = await Promise.all(members.map(async (member) => stateOf(await eventsOf(ledger, member))));
  const count = (state: MemberState) => states.filter((one) => one === state).length;
  return {
    ready: count("ready"),
    starting: count("starting"),
    claimed: count("claimed"),
    deleting: count("deleting"),
    failuresInRow,
    waitUntil,
  };
}

/** An install that was set up before there was a pool has none. */
async function recordOf(nats: Stores["nats"]): Promise<PoolRecord> {
  try {
    return (await (await openPoolRecord({ nats })).read()).record;
  } catch (error) {
    if (error instanceof Retryable && error.code === "pool_unreachable") return EMPTY_POOL;
    throw error;
  }
}

async function eventsOf(ledger: LedgerReader, member: string): Promise<PistisEvent[]> {
  return (await ledger.read(member)).messages.flatMap(({ events }) => events);
}

export function stateOf(events: readonly PistisEvent[]): MemberState {
  if (events.some(({ type }) => type === "PoolMemberRetired")) return "deleting";
  if (events.some(({ type }) => type === "PoolMemberClaimed")) return "claimed";
  return events.some((event) => event.type === "EgressProbed" && event.data.passed) ? "ready" : "starting";
}

/** A line, or nothing where there is no pool. */
export function warmPoolText({ ready, starting, claimed, deleting, failuresInRow, waitUntil }: WarmPoolStatus): string {
  if (ready + starting + claimed + deleting + failuresInRow === 0) return "";
  const counts = [
    `${ready} ready`,
    ...(starting === 0 ? [] : [`${starting} starting`]),
    ...(claimed === 0 ? [] : [`${claimed} going to a session`]),
    ...(deleting === 0 ? [] : [`${deleting} being deleted`]),
    ...(failuresInRow === 0 ? [] : [`${failuresInRow} failed in a row`]),
    ...(waitUntil === null ? [] : [`next one not before ${waitUntil}`]),
  ];
  return `\nwarm sandboxes: ${counts.join(", ")}\n`;
}
