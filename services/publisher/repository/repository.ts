// What a session's repository is and whether it is in the sandbox that is up now.
import type { PistisEvent } from "#schemas/ledger/event.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";

export type UpSandbox = Readonly<{ sandboxId: string; generation: number; bootId: string }>;

export type SessionRepository =
  | { status: "none" }
  | { status: "waiting"; source: RepositorySource }
  | { status: "wanted"; source: RepositorySource; sandbox: UpSandbox }
  /** Nothing is tried again until the sandbox joins anew or a turn starts. */
  | { status: "failed"; source: RepositorySource; sandbox: UpSandbox }
  /** Its sandbox may come and go: as long as the generation is the same, so is the disk. */
  | { status: "copied"; source: RepositorySource; generation: number }
  | { status: "ended" };

export const initialState: SessionRepository = { status: "none" };

export function evolve(repository: SessionRepository, event: PistisEvent): SessionRepository {
  switch (event.type) {
    case "SessionCreated":
      return event.data.repository === undefined ? repository : { status: "waiting", source: event.data.repository };
    case "SandboxJoined":
      return joined(repository, event.data);
    case "SandboxStopped":
    case "SandboxMissing":
    case "SandboxDestroyed":
      return gone(repository, event.data.generation);
    case "TurnStarted":
      return repository.status === "failed" ? { ...repository, status: "wanted" } : repository;
    case "RepositoryCopied":
      return hasSource(repository)
        ? { status: "copied", source: repository.source, generation: event.data.generation }
        : repository;
    case "RepositoryCopyFailed":
      return repository.status === "wanted" ? { ...repository, status: "failed" } : repository;
    case "SessionEndRequested":
    case "SessionEnded":
      return { status: "ended" };
    default:
      return repository;
  }
}

type WithSource = Extract<SessionRepository, { source: RepositorySource }>;

function hasSource(repository: SessionRepository): repository is WithSource {
  return "source" in repository;
}

function joined(repository: SessionRepository, sandbox: UpSandbox): SessionRepository {
  if (!hasSource(repository)) return repository;
  if (repository.status === "copied" && repository.generation >= sandbox.generation) return repository;
  const { sandboxId, generation, bootId } = sandbox;
  return { status: "wanted", source: repository.source, sandbox: { sandboxId, generation, bootId } };
}

function gone(repository: SessionRepository, generation: number): SessionRepository {
  if (repository.status !== "wanted" && repository.status !== "failed") return repository;
  return repository.sandbox.generation > generation ? repository : { status: "waiting", source: repository.source };
}
