import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { Fatal } from "#shared/errors/errors.ts";
import type { SessionSandbox } from "./sandbox.ts";

type Identity = Readonly<{ sandboxId: string; generation: number }>;
type FailureData = Extract<SchedulerEvent, { type: "SandboxFailed" }>["data"]["failure"];

const EVENTS = {
  restart: "SandboxRestartRequested",
  inspect: "SandboxInspectRequested",
} as const;

/** `network` is fixed here for as long as this generation lives. */
export function createRequested(
  state: SessionSandbox,
  about: Identity,
  { taskId, network }: { taskId: string; network: SandboxNetwork },
): SchedulerEvent {
  const data = { ...identity(about), provider: providerOf(state), taskId, network };
  return { type: "SandboxCreateRequested", data };
}

export function requested(
  request: keyof typeof EVENTS,
  state: SessionSandbox,
  about: Identity,
  taskId: string,
): SchedulerEvent {
  return { type: EVENTS[request], data: { ...identity(about), provider: providerOf(state), taskId } };
}

export function deleteRequested(state: SessionSandbox, about: Identity, taskId: string): SchedulerEvent {
  return { type: "SandboxDeleteRequested", data: { ...identity(about), provider: providerOf(state), taskId } };
}

export function failedWith(about: Identity, failure: FailureData): SchedulerEvent {
  return { type: "SandboxFailed", data: { ...identity(about), failure } };
}

export function identity({ sandboxId, generation }: Identity): Identity {
  return { sandboxId, generation };
}

function providerOf({ provider }: SessionSandbox): string {
  if (provider === undefined) throw new Fatal("session_without_provider", "The session was never created");
  return provider;
}
