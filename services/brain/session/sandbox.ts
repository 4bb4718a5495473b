// What the session knows about its sandbox and about the repository in it.
import type { EventOf } from "#schemas/ledger/event.ts";
import type { RepositoryCopyEvent, SandboxEvent } from "./session-events.ts";

export type SandboxFailure = Readonly<{ code: string; message: string; next?: string | undefined }>;

export type Sandbox =
  | Readonly<{ status: "absent" }>
  | Readonly<{ status: "asked" }>
  | Readonly<{
      status: "up";
      sandboxId: string;
      generation: number;
      bootId: string;
      /** A brain could not reach it and asked for help; a new boot, a call that starts or a new turn ends that. */
      unreachable: boolean;
    }>
  | Readonly<{ status: "stopped"; sandboxId: string; generation: number }>
  | Readonly<{ status: "failed"; failure: SandboxFailure }>;

/** What a probe found of the sandbox's network. Until one passed in this generation, no call starts in it. */
export type NetworkProbe =
  | Readonly<{ status: "awaited" }>
  | Readonly<{ status: "passed"; generation: number }>
  | Readonly<{ status: "failed"; generation: number; failure: SandboxFailure }>;

export type RepositoryCopy =
  | Readonly<{ status: "awaited" }>
  | Readonly<{ status: "copied"; generation: number }>
  | Readonly<{ status: "failed"; generation: number; failure: SandboxFailure }>;

/** The sandbox that the model last worked in; what it may believe exists. */
export type LastSeen = Readonly<{ generation: number; bootId: string }> | undefined;

export function evolveSandbox(sandbox: Sandbox, event: SandboxEvent): Sandbox {
  switch (event.type) {
    case "SandboxNeeded":
      if (sandbox.status !== "up") return { status: "asked" };
      if (event.data.reason === "unprobed") return sandbox;
      return event.data.reason === "unreachable" ? { ...sandbox, unreachable: true } : { status: "asked" };
    case "SandboxJoined":
      return { status: "up", ...startOf(event.data), unreachable: false };
    case "SandboxStopped":
      if (isOutdated(sandbox, event.data)) return sandbox;
      return { status: "stopped", sandboxId: event.data.sandboxId, generation: event.data.generation };
    case "SandboxMissing":
    case "SandboxDestroyed":
      return isOutdated(sandbox, event.data) ? sandbox : { status: "absent" };
    case "SandboxFailed":
      return isOutdated(sandbox, event.data) ? sandbox : { status: "failed", failure: event.data.failure };
    default:
      return sandbox;
  }
}

/** What came of the help that an earlier turn asked for is over: a turn that cannot reach it asks for its own. */
export function askAgain(sandbox: Sandbox): Sandbox {
  return sandbox.status === "up" ? { ...sandbox, unreachable: false } : sandbox;
}

export function evolveRepositoryCopy(event: RepositoryCopyEvent): RepositoryCopy {
  const { generation } = event.data;
  if (event.type === "RepositoryCopied") return { status: "copied", generation };
  return { status: "failed", generation, failure: event.data.failure };
}

/** The publisher tries a copy that failed again when the sandbox joins and when a turn starts. */
export function copyAgain(copy: RepositoryCopy): RepositoryCopy {
  return copy.status === "failed" ? { status: "awaited" } : copy;
}

export function evolveNetworkProbe({ passed, generation, findings }: EventOf<"EgressProbed">["data"]): NetworkProbe {
  if (passed) return { status: "passed", generation };
  return { status: "failed", generation, failure: networkFailure(findings.filter(({ ok }) => !ok)) };
}

/** The scheduler probes again when the sandbox joins and when a turn asks for it. */
export function probeAgain(probe: NetworkProbe): NetworkProbe {
  return probe.status === "failed" ? { status: "awaited" } : probe;
}

type Finding = EventOf<"EgressProbed">["data"]["findings"][number];

const FINDINGS_NAMED_MAX = 6;

function networkFailure(wrong: readonly Finding[]): SandboxFailure {
  const named = wrong.slice(0, FINDINGS_NAMED_MAX).map(({ target, outcome }) => `${target} (${outcome})`);
  const more = wrong.length > named.length ? `, and ${wrong.length - named.length} more` : "";
  return {
    code: "egress_open",
    message: `The network of the sandbox is not as it should be, so nothing is run in it: ${named.join(", ")}${more}`,
    next: "Close the way out (Docker with sandboxes.internet: `pistis docker-firewall`; Kubernetes: a network plugin that enforces policies), then post a message: it is probed again. `pistis events --type EgressProbed --json` lists all that was tried.",
  };
}

/** What the model has to be told when `joined` takes the place of the sandbox that it worked in (C13). */
export function sandboxNotice(lastSeen: LastSeen, joined: { generation: number; bootId: string }): string | undefined {
  if (lastSeen === undefined) return undefined;
  if (lastSeen.generation !== joined.generation) {
    return "The sandbox was replaced by a new one. Files that you made outside the repository's own content, installed packages and running processes are gone. Look before you rely on anything from earlier.";
  }
  if (lastSeen.bootId === joined.bootId) return undefined;
  return "The sandbox was restarted. Files under /workspace are still there; every process, also every background command, is gone.";
}

function startOf({ sandboxId, generation, bootId }: EventOf<"SandboxJoined">["data"]) {
  return { sandboxId, generation, bootId };
}

function isOutdated(sandbox: Sandbox, about: { generation: number }): boolean {
  return (sandbox.status === "up" || sandbox.status === "stopped") && sandbox.generation > about.generation;
}
