// The life of a warm sandbox as far as it is not that of any sandbox. It is claimed once or retired once, and both are
// appends to its own subject: whoever was second is told by the ledger.
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { SandboxSpec } from "#schemas/provider/task.ts";
import { Refusal } from "#shared/errors/errors.ts";
import type { SessionSandbox } from "../sandbox/sandbox.ts";
import { type Handover, isReady, type Wanted } from "./member.ts";

/** `session` is the member's own id, but in AdoptPoolMember that of the session which gets it. */
export type MemberCommand =
  | Readonly<{ type: "AddPoolMember"; session: string; provider: string; spec: SandboxSpec; addedAt: string }>
  | Readonly<{ type: "ClaimPoolMember"; session: string; claimedBy: string; wanted: Wanted; now: number }>
  /** `voidClaimBy`: the session that has claimed it and can never have it. */
  | Readonly<{ type: "RetirePoolMember"; session: string; reason: string; voidClaimBy?: string }>
  | Readonly<{ type: "AdoptPoolMember"; session: string; handover: Handover }>;

type CommandOf<Type extends MemberCommand["type"]> = Extract<MemberCommand, { type: Type }>;

export function decideMember(state: SessionSandbox, command: MemberCommand): SchedulerEvent[] {
  switch (command.type) {
    case "AddPoolMember":
      return addMember(state, command);
    case "ClaimPoolMember":
      return claimMember(state, command);
    case "RetirePoolMember":
      return retireMember(state, command);
    case "AdoptPoolMember":
      return adoptMember(state, command);
  }
}

/** One that was retired before anybody began it stays so. */
function addMember(state: SessionSandbox, command: CommandOf<"AddPoolMember">): SchedulerEvent[] {
  const { provider, spec, addedAt } = command;
  if (state.pool !== undefined || state.ended) return [];
  return [{ type: "PoolMemberAdded", data: { provider, spec, addedAt } }];
}

function claimMember(state: SessionSandbox, command: CommandOf<"ClaimPoolMember">): SchedulerEvent[] {
  const { session, claimedBy, wanted, now } = command;
  if (state.ended) throw new Refusal("member_retired", `${session} is being deleted`);
  if (state.pool?.claimedBy === claimedBy) return [];
  if (state.pool?.claimedBy !== undefined) {
    throw new Refusal("member_claimed", `${session} belongs to ${state.pool.claimedBy}`);
  }
  if (!isReady(state, wanted, now)) throw new Refusal("member_not_ready", `${session} is not ready to be handed over`);
  return [{ type: "PoolMemberClaimed", data: { claimedBy } }];
}

function retireMember(state: SessionSandbox, command: CommandOf<"RetirePoolMember">): SchedulerEvent[] {
  const { session, reason, voidClaimBy } = command;
  if (state.ended) return [];
  const claimedBy = state.pool?.claimedBy;
  if (claimedBy !== voidClaimBy) throw new Refusal("member_claimed", `${session} belongs to ${claimedBy ?? "nobody"}`);
  return [{ type: "PoolMemberRetired", data: { reason } }];
}

/**
 * Refused only when the session can never have this sandbox: it is over, or has another one. A session keeps the id of
 * its first sandbox for ever, so what was refused once is refused always.
 */
function adoptMember(state: SessionSandbox, command: CommandOf<"AdoptPoolMember">): SchedulerEvent[] {
  const { sandbox, ended } = state;
  const { session, handover } = command;
  const { sandboxId, generation, provider, taskId, network, createdMs, bootId, report, probe } = handover;
  if (sandbox.status !== "absent" && sandbox.sandboxId === sandboxId) return [];
  if (ended || sandbox.status !== "absent" || state.provider !== provider) {
    throw new Refusal("claim_void", `${session} has no use for ${sandboxId}`);
  }
  const about = { sandboxId, generation };
  return [
    { type: "SandboxCreateRequested", data: { ...about, provider, taskId, network } },
    ...(createdMs === undefined
      ? []
      : [{ type: "SandboxCreated" as const, data: { ...about, durationMs: createdMs } }]),
    { type: "SandboxJoined", data: { ...about, bootId, report } },
    { type: "EgressProbed", data: { ...about, passed: true, ...probe } },
  ];
}
