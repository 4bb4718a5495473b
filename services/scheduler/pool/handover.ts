// Gives a session that needs its first sandbox one that is up already. The claim is one append to the warm sandbox's own
// subject, which only the first of all sessions and schedulers gets through; then the session's ledger is told the same
// facts as of a sandbox made for it. Who dies in between leaves the claim in the ledger, and it comes back here.
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { EMPTY_POOL, type PoolRecord } from "#schemas/scheduler/pool.ts";
import { failureOf, Refusal } from "#shared/errors/errors.ts";
import type { Cause, LedgerMessage } from "#shared/ledger/ledger.ts";
import type { PoolRecordStore } from "#shared/nats/pool-record.ts";
import type { Log } from "#shared/service/log.ts";
import type { Relay } from "../relay/join-tokens.ts";
import { seenByRelay } from "../relay/seen-by-relay.ts";
import type { SessionSandbox } from "../sandbox/sandbox.ts";
import type { Sessions } from "../sessions.ts";
import { handoverOf, isReady, type Wanted } from "./member.ts";

export type PoolSettings = Readonly<{
  /** `sandboxes.warm` */
  size: number;
  /** `sandboxes.warmAgeMsMax` */
  ageMsMax: number;
  /** `sandboxes.provider` */
  provider: string;
}>;

export type Pool = Readonly<{
  sessions: Sessions;
  record: PoolRecordStore;
  settings: PoolSettings;
  relay: Relay;
  spec: SandboxSpec;
  startMs: number;
  now: () => number;
  log: Log;
}>;

export function wantedOf({ settings, spec }: Pool): Wanted {
  return { provider: settings.provider, spec, ageMsMax: settings.ageMsMax };
}

/** False when the session has to have a sandbox made for it, or needs none. */
export async function handOver(pool: Pool, message: LedgerMessage): Promise<boolean> {
  const { session, correlationId, id } = message;
  if (pool.settings.size === 0 || !needsFirst(await pool.sessions.at(message), pool)) return false;
  for (const candidate of await candidates(pool, session)) {
    if (await claim(pool, { ...candidate, session }, { correlationId, causationId: id })) return true;
  }
  return false;
}

function needsFirst({ sandbox, need, ended, provider, pool }: SessionSandbox, { settings }: Pool): boolean {
  const isSession = pool === undefined;
  return isSession && sandbox.status === "absent" && need !== undefined && !ended && provider === settings.provider;
}

type Candidate = Readonly<{ member: string; state: SessionSandbox }>;

/** What this session has claimed before comes first, then the ones that have been ready for longest. */
async function candidates(pool: Pool, session: string): Promise<Candidate[]> {
  const { members } = await recordOf(pool);
  const known = await Promise.all(members.map(async (member) => ({ member, state: await pool.sessions.now(member) })));
  const own = known.filter(({ state }) => state.pool?.claimedBy === session && !state.ended);
  const ready = known.filter(({ state }) => isReady(state, wantedOf(pool), pool.now()));
  return [...own, ...ready];
}

/** A session does not wait for a record that cannot be read: it has a sandbox made for it. */
async function recordOf({ record, log }: Pool): Promise<PoolRecord> {
  try {
    return (await record.read()).record;
  } catch (error) {
    log.warn({ failure: failureOf(error) }, "The record of the warm pool could not be read");
    return EMPTY_POOL;
  }
}

async function claim(
  pool: Pool,
  { member, state, session }: Candidate & { session: string },
  cause: Cause,
): Promise<boolean> {
  const { sessions, log, relay } = pool;
  if (state.pool?.claimedBy !== session && !(await isConnected(relay, state))) return false;
  const wanted = wantedOf(pool);
  try {
    await sessions.command(
      { type: "ClaimPoolMember", session: member, claimedBy: session, wanted, now: pool.now() },
      cause,
    );
    await adopt(pool, { member, session }, cause);
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    log.debug({ session, member, failure: failureOf(error) }, "A warm sandbox went elsewhere");
    return false;
  }
}

async function isConnected(relay: Relay, { sandbox }: SessionSandbox): Promise<boolean> {
  if (sandbox.status !== "joined") return false;
  const seen = await seenByRelay(relay, sandbox.sandboxId);
  return seen?.online === true && seen.bootId === sandbox.bootId && seen.generation === sandbox.generation;
}

/** Throws a Refusal `claim_void` when the session can never have it. */
async function adopt(
  { sessions, log }: Pool,
  { member, session }: { member: string; session: string },
  cause: Cause,
): Promise<void> {
  const handover = handoverOf(await sessions.now(member));
  // From the claim on nothing is stored of the warm sandbox but its retirement, so what it is does not change.
  if (handover === undefined) throw new Refusal("claim_void", `${member} is not what was claimed`);
  const facts = await sessions.command({ type: "AdoptPoolMember", session, handover }, cause);
  if (facts.length > 0) log.info({ session, sandboxId: handover.sandboxId }, "A warm sandbox was handed over");
}

/** A claim came back from the ledger: the session has the sandbox now, or nobody ever gets it. */
export async function settleClaim(pool: Pool, message: LedgerMessage): Promise<void> {
  const { session: member, correlationId, id } = message;
  const cause = { correlationId, causationId: id };
  const { pool: known, ended } = await pool.sessions.at(message);
  if (known?.claimedBy === undefined || ended) return;
  try {
    await adopt(pool, { member, session: known.claimedBy }, cause);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const reason = `claimed for ${known.claimedBy}, which has no use for it`;
    const voidClaimBy = known.claimedBy;
    await pool.sessions.command({ type: "RetirePoolMember", session: member, reason, voidClaimBy }, cause);
  }
}
