// What a session's repository is and whether it is in the sandbox that is up now.
import type { EventOf, PistisEvent } from "#schemas/ledger/event.ts";
import type { RepositorySource } from "#schemas/ledger/parts.ts";

export type UpSandbox = Readonly<{ sandboxId: string; generation: number; bootId: string }>;

/** `probedGeneration`: the newest generation whose network was found closed; 0: none was. */
type Known = { source: RepositorySource; probedGeneration: number };

export type SessionRepository =
  | { status: "none" }
  | ({ status: "waiting" } & Known)
  /** The sandbox is there, but its network was not found closed: it is shown nothing that it could carry out. */
  | ({ status: "unprobed"; sandbox: UpSandbox } & Known)
  | ({ status: "wanted"; sandbox: UpSandbox } & Known)
  /** Nothing is tried again until the sandbox joins anew or a turn starts. */
  | ({ status: "failed"; sandbox: UpSandbox } & Known)
  /** Its sandbox may come and go: as long as the generation is the same, so is the disk. */
  | ({ status: "copied"; generation: number } & Known)
  | { status: "ended" };

export const initialState: SessionRepository = { status: "none" };

export function evolve(repository: SessionRepository, event: PistisEvent): SessionRepository {
  switch (event.type) {
    case "SessionCreated":
      return event.data.repository === undefined ? repository : created(event.data.repository);
    case "SandboxJoined":
      return joined(repository, event.data);
    case "EgressProbed":
      return probed(repository, event.data);
    case "SandboxStopped":
    case "SandboxMissing":
    case "SandboxDestroyed":
      return gone(repository, event.data.generation);
    case "TurnStarted":
      return repository.status === "failed" ? { ...repository, status: "wanted" } : repository;
    case "RepositoryCopied":
      return hasSource(repository)
        ? { status: "copied", ...knownOf(repository), generation: event.data.generation }
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

type WithSource = Extract<SessionRepository, Known>;

function created(source: RepositorySource): SessionRepository {
  return { status: "waiting", source, probedGeneration: 0 };
}

function hasSource(repository: SessionRepository): repository is WithSource {
  return "source" in repository;
}

function knownOf({ source, probedGeneration }: WithSource): Known {
  return { source, probedGeneration };
}

function joined(repository: SessionRepository, up: UpSandbox): SessionRepository {
  if (!hasSource(repository)) return repository;
  if (repository.status === "copied" && repository.generation >= up.generation) return repository;
  const { sandboxId, generation, bootId } = up;
  const status = repository.probedGeneration === generation ? "wanted" : "unprobed";
  return { status, ...knownOf(repository), sandbox: { sandboxId, generation, bootId } };
}

function probed(
  repository: SessionRepository,
  { passed, generation }: EventOf<"EgressProbed">["data"],
): SessionRepository {
  if (!passed || !hasSource(repository)) return repository;
  const isWanted = repository.status === "unprobed" && repository.sandbox.generation === generation;
  const known = { ...knownOf(repository), probedGeneration: generation };
  return isWanted ? { status: "wanted", ...known, sandbox: repository.sandbox } : { ...repository, ...known };
}

function gone(repository: SessionRepository, generation: number): SessionRepository {
  if (!hasSource(repository) || !("sandbox" in repository)) return repository;
  return repository.sandbox.generation > generation ? repository : { status: "waiting", ...knownOf(repository) };
}
