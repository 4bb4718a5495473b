// A session's sandbox as the scheduler knows it: what was asked of the provider and what it, or the relay, has said.
// A session has one sandbox at a time; its generation rises when a new one takes the place of one that is gone.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { ReportPlace } from "#schemas/ledger/parts.ts";
import { NO_NETWORK, type SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { evolveMember, type PoolMember } from "../pool/member.ts";

type Identity = Readonly<{ sandboxId: string; generation: number }>;
export type Request = "create" | "restart" | "inspect";
export type Need = EventOf<"SandboxNeeded">["data"]["reason"];

export type Sandbox =
  | Readonly<{ status: "absent" }>
  /** `made`: the provider has done its part, pistisd has not joined yet. */
  | (Identity & Readonly<{ status: "creating" | "restarting"; taskId: string; made: boolean }>)
  | (Identity & Readonly<{ status: "joined"; bootId: string }>)
  /**
   * The provider was asked for the truth about one that had joined. `forTurn`: a turn waits for the answer.
   * `givenUp`: an earlier such request was not answered, and the ledger says that the sandbox failed.
   */
  | (Identity & Readonly<{ status: "inspecting"; taskId: string; forTurn: boolean; givenUp: boolean }>)
  | (Identity & Readonly<{ status: "stopped" | "missing" | "destroyed" }>)
  | (Identity & Readonly<{ status: "failed"; request: Request }>)
  | (Identity & Readonly<{ status: "deleting"; taskId: string; attempts: number }>)
  | (Identity & Readonly<{ status: "undeletable"; attempts: number }>);

export type SessionSandbox = Readonly<{
  provider: string | undefined;
  ended: boolean;
  /** A turn needs the sandbox and nothing was asked or answered since. */
  need: Need | undefined;
  /** Boot ids of this generation that were recorded, newest last: an old report that comes again is known by them. */
  boots: readonly string[];
  /** Where the report of the last join stands; undefined: none was recorded. */
  lastJoin: ReportPlace | undefined;
  /** What this generation may reach, fixed when it was asked for. */
  network: SandboxNetwork;
  /** The newest generation whose network was found to be as it should; 0: none was. */
  probedGeneration: number;
  /** Reports of the egress service that were recorded, newest last: one that comes again is known by them. */
  egressBatches: readonly string[];
  /** Set for a sandbox of the warm pool, whose id and ledger are its own and no session's. */
  pool: PoolMember | undefined;
  sandbox: Sandbox;
}>;

export const initialState: SessionSandbox = {
  provider: undefined,
  ended: false,
  need: undefined,
  boots: [],
  lastJoin: undefined,
  network: NO_NETWORK,
  probedGeneration: 0,
  egressBatches: [],
  pool: undefined,
  sandbox: { status: "absent" },
};

const BOOTS_KEPT = 100;
const EGRESS_BATCHES_KEPT = 100;

/** The id of the sandbox that is made for a session. One of the warm pool has another: pool/owner.ts. */
export function sandboxIdOf(session: string): string {
  return session.replace(/^ses_/, "sbx_");
}

export function sessionOf(sandboxId: string): string {
  return sandboxId.replace(/^sbx_/, "ses_");
}

export function evolve(before: SessionSandbox, event: PistisEvent): SessionSandbox {
  const pool = evolveMember(before.pool, event);
  const state = pool === before.pool ? before : { ...before, pool };
  switch (event.type) {
    case "SessionCreated":
      return { ...state, provider: event.data.provider };
    case "PoolMemberAdded":
      return { ...state, provider: event.data.provider, need: "absent" };
    case "SessionEnded":
    case "PoolMemberRetired":
      return { ...state, ended: true };
    case "SandboxNeeded":
      return { ...state, need: event.data.reason };
    case "EgressLogged":
    case "EgressSummarised":
      return logged(state, event.data.batch);
    case "EgressProbed":
      return probed(state, event.data);
    default:
      return isAboutSandbox(event) ? evolveSandbox(state, event) : state;
  }
}

type SandboxFact = Extract<SchedulerEvent, { type: `Sandbox${string}` }>;

function isAboutSandbox(event: PistisEvent): event is SandboxFact {
  return event.type.startsWith("Sandbox");
}

/** The events of one report come together, so the last batch is often known already. */
function logged(state: SessionSandbox, batch: string): SessionSandbox {
  if (state.egressBatches.includes(batch)) return state;
  return { ...state, egressBatches: [...state.egressBatches, batch].slice(-EGRESS_BATCHES_KEPT) };
}

function probed(state: SessionSandbox, { passed, generation }: EventOf<"EgressProbed">["data"]): SessionSandbox {
  const need = state.need === "unprobed" ? undefined : state.need;
  return { ...state, need, probedGeneration: passed ? generation : state.probedGeneration };
}

function evolveSandbox(state: SessionSandbox, event: SandboxFact): SessionSandbox {
  const identity = { sandboxId: event.data.sandboxId, generation: event.data.generation };
  const { sandbox } = state;
  switch (event.type) {
    case "SandboxCreateRequested":
      return {
        ...asked(state, { status: "creating", ...identity, taskId: event.data.taskId, made: false }),
        network: event.data.network,
      };
    case "SandboxRestartRequested":
      return asked(state, { status: "restarting", ...identity, taskId: event.data.taskId, made: false });
    case "SandboxInspectRequested":
      return asked(state, inspecting(state, identity, event.data.taskId));
    case "SandboxDeleteRequested":
      return asked(state, {
        status: "deleting",
        ...identity,
        taskId: event.data.taskId,
        attempts: attemptsOf(sandbox) + 1,
      });
    case "SandboxCreated":
    case "SandboxRestarted":
      return sandbox.status === "creating" || sandbox.status === "restarting"
        ? { ...state, sandbox: { ...sandbox, made: true } }
        : state;
    case "SandboxJoined":
      return joined(state, event.data);
    case "SandboxStopped":
      return { ...state, sandbox: { status: "stopped", ...identity } };
    case "SandboxMissing":
      return { ...state, sandbox: { status: "missing", ...identity } };
    case "SandboxDestroyed":
      return { ...state, sandbox: { status: "destroyed", ...identity } };
    case "SandboxFailed":
      return { ...state, need: undefined, sandbox: failed(sandbox, identity) };
  }
}

function asked(state: SessionSandbox, sandbox: Sandbox & Identity): SessionSandbox {
  const before = state.sandbox.status === "absent" ? 0 : state.sandbox.generation;
  return { ...state, need: undefined, boots: sandbox.generation > before ? [] : state.boots, sandbox };
}

function inspecting({ sandbox, need }: SessionSandbox, identity: Identity, taskId: string): Sandbox & Identity {
  const before = sandbox.status === "inspecting" ? sandbox : { forTurn: false, givenUp: sandbox.status === "failed" };
  const forTurn = before.forTurn || need !== undefined;
  return { status: "inspecting", ...identity, taskId, forTurn, givenUp: before.givenUp };
}

function joined(state: SessionSandbox, { report, ...sandbox }: EventOf<"SandboxJoined">["data"]): SessionSandbox {
  const boots = [...state.boots, sandbox.bootId].slice(-BOOTS_KEPT);
  return { ...state, need: undefined, boots, lastJoin: report, sandbox: { status: "joined", ...sandbox } };
}

function failed(before: Sandbox, identity: Identity): Sandbox {
  switch (before.status) {
    case "restarting":
      return { status: "failed", ...identity, request: "restart" };
    case "inspecting":
      return { status: "failed", ...identity, request: "inspect" };
    case "deleting":
      return { status: "undeletable", ...identity, attempts: before.attempts };
    default:
      return { status: "failed", ...identity, request: "create" };
  }
}

function attemptsOf(sandbox: Sandbox): number {
  return sandbox.status === "deleting" || sandbox.status === "undeletable" ? sandbox.attempts : 0;
}
