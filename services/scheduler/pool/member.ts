// A sandbox of the warm pool: one that belongs to no session yet. It lives in the ledger like that of a session, under
// a reserved session id of its own, and what it is besides that is here.
import { isDeepStrictEqual } from "node:util";
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { ReportPlace } from "#schemas/ledger/parts.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import type { SessionSandbox } from "../sandbox/sandbox.ts";

type Probe = Pick<EventOf<"EgressProbed">["data"], "findings" | "durationMs">;

export type PoolMember = Readonly<{
  provider: string;
  spec: SandboxSpec;
  addedAt: string;
  /** The one session that gets it. */
  claimedBy: string | undefined;
  /** What a session's ledger says about a sandbox of its own is kept, to be said there too. */
  taskId: string | undefined;
  createdMs: number | undefined;
  /** The probe that it passed. */
  probe: Probe | undefined;
  probeFailed: boolean;
}>;

/** What sessions need now: no member of any other kind is handed over. */
export type Wanted = Readonly<{ provider: string; spec: SandboxSpec; ageMsMax: number }>;

/** All that a session's ledger says about a sandbox that is up and closed. */
export type Handover = Readonly<{
  sandboxId: string;
  generation: number;
  provider: string;
  taskId: string;
  network: SandboxNetwork;
  createdMs: number | undefined;
  bootId: string;
  report: ReportPlace;
  probe: Probe;
}>;

const NOTHING_KNOWN = {
  claimedBy: undefined,
  taskId: undefined,
  createdMs: undefined,
  probe: undefined,
  probeFailed: false,
};

export function evolveMember(member: PoolMember | undefined, event: PistisEvent): PoolMember | undefined {
  if (event.type === "PoolMemberAdded") {
    return { ...event.data, ...NOTHING_KNOWN };
  }
  if (member === undefined) return undefined;
  switch (event.type) {
    case "PoolMemberClaimed":
      return { ...member, claimedBy: event.data.claimedBy };
    case "SandboxCreateRequested":
      return { ...member, taskId: event.data.taskId };
    case "SandboxCreated":
      return { ...member, createdMs: event.data.durationMs };
    case "EgressProbed": {
      const { passed, findings, durationMs } = event.data;
      return { ...member, probe: passed ? { findings, durationMs } : undefined, probeFailed: !passed };
    }
    default:
      return member;
  }
}

/** Undefined unless it is up, joined and found closed. Whether it may be handed over is another question. */
export function handoverOf({ sandbox, pool, network, lastJoin }: SessionSandbox): Handover | undefined {
  if (sandbox.status !== "joined" || lastJoin === undefined) return undefined;
  if (pool?.taskId === undefined || pool.probe === undefined) return undefined;
  const { sandboxId, generation, bootId } = sandbox;
  const { provider, taskId, createdMs, probe } = pool;
  return { sandboxId, generation, provider, taskId, network, createdMs, bootId, report: lastJoin, probe };
}

/** Why a member is not what sessions need, in words; undefined when it is. */
export function misfit({ provider, spec, addedAt }: PoolMember, wanted: Wanted, now: number): string | undefined {
  if (provider !== wanted.provider) return "sandboxes.provider is another one now";
  if (!isDeepStrictEqual(spec, wanted.spec))
    return "its image, limits or network are not those of pistis.json any more";
  if (now - Date.parse(addedAt) > wanted.ageMsMax) return "it is older than sandboxes.warmAgeMsMax";
  return undefined;
}

/** pistisd in it came to an end and was started anew, which nobody asked for. */
export function wasStartedAnew({ boots }: SessionSandbox): boolean {
  return boots.length > 1;
}

/** Up and closed, no session's, and what sessions need. */
export function isReady(state: SessionSandbox, wanted: Wanted, now: number): boolean {
  const { pool, ended } = state;
  if (pool === undefined || ended || pool.claimedBy !== undefined || wasStartedAnew(state)) return false;
  return handoverOf(state) !== undefined && misfit(pool, wanted, now) === undefined;
}
