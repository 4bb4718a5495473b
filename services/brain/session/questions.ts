// Questions that deciders and the loop ask of a session.
import type { Call, Idle, Session, WaitingMessage, Working } from "./session.ts";

/** What a brain that holds the session's lease should do. */
export type Attention = "none" | "start-turn" | "go-on" | "end-session";

export function attention(session: Session): Attention {
  if (session.status === "working") return "go-on";
  if (session.status !== "idle") return "none";
  if (session.endRequested) return "end-session";
  return mayStartTurn(session) ? "start-turn" : "none";
}

export function mayStartTurn(session: Idle): boolean {
  return session.waiting.length > 0 && !session.held && !session.endRequested;
}

/** Someone pressed Stop or ended the session: no call starts any more. */
export function isStopping(session: Working): boolean {
  return session.turn.interruptRequested || session.endRequested;
}

export function openCalls(session: Working): Call[] {
  return session.turn.calls.filter(({ status }) => status !== "closed");
}

/** Messages that reach the model at its next step. */
export function steering(session: Working): WaitingMessage[] {
  return session.held ? [] : session.waiting.filter(({ delivery }) => delivery === "steer");
}

/** The model has had its last word and has heard nothing since, so there is nothing to ask it. */
export function isAllSaid({ history }: Working): boolean {
  let newest = history;
  while (newest?.entry.kind === "notice") newest = newest.before;
  return newest?.entry.kind === "reply";
}

/** A sandbox is there in which nothing may start yet: its network was not found to be as it should. */
export function isUnprobed({ sandbox, networkProbe }: Idle | Working): boolean {
  if (sandbox.status !== "up") return false;
  return networkProbe.status !== "passed" || networkProbe.generation !== sandbox.generation;
}

export type Workplace =
  | Readonly<{ status: "ready"; sandboxId: string; bootId: string; generation: number }>
  | Readonly<{ status: "waiting"; what: "sandbox" | "network" | "repository" }>
  | Readonly<{ status: "needed"; reason: "absent" | "stopped" }>
  | Readonly<{ status: "failed"; failure: { code: string; message: string; next?: string | undefined } }>;

/** Can commands run now, and if not, what is missing? */
export function workplaceOf({ sandbox, networkProbe, repository, repositoryCopy }: Working): Workplace {
  switch (sandbox.status) {
    case "absent":
      return { status: "needed", reason: "absent" };
    case "stopped":
      return { status: "needed", reason: "stopped" };
    case "asked":
      return { status: "waiting", what: "sandbox" };
    case "failed":
      return { status: "failed", failure: sandbox.failure };
    case "up":
      break;
  }
  const { sandboxId, bootId, generation } = sandbox;
  if (networkProbe.status === "awaited" || networkProbe.generation !== generation) {
    return { status: "waiting", what: "network" };
  }
  if (networkProbe.status === "failed") return { status: "failed", failure: networkProbe.failure };
  const ready = { status: "ready", sandboxId, bootId, generation } as const;
  if (repository === undefined) return ready;
  if (repositoryCopy.status === "awaited" || repositoryCopy.generation !== generation) {
    return { status: "waiting", what: "repository" };
  }
  return repositoryCopy.status === "failed" ? { status: "failed", failure: repositoryCopy.failure } : ready;
}
