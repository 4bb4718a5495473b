import type { SchedulerEvent } from "#schemas/ledger/events/scheduler.ts";
import { Fatal } from "#shared/errors/errors.ts";
import type { Request, SessionSandbox } from "./sandbox.ts";

type Identity = Readonly<{ sandboxId: string; generation: number }>;
type FailureData = Extract<SchedulerEvent, { type: "SandboxFailed" }>["data"]["failure"];

const EVENTS = {
  create: "SandboxCreateRequested",
  restart: "SandboxRestartRequested",
  inspect: "SandboxInspectRequested",
} as const;

export function requested(request: Request, state: SessionSandbox, about: Identity, taskId: string): SchedulerEvent {
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
