import type { EventOf } from "#schemas/ledger/event.ts";
import type { SessionRepository, UpSandbox } from "./repository.ts";

type Copied = EventOf<"RepositoryCopied">;
type CopyFailed = EventOf<"RepositoryCopyFailed">;

export type RepositoryCommand =
  | { type: "RecordCopy"; sandbox: UpSandbox; copy: Omit<Copied["data"], "sandboxId" | "generation"> }
  | { type: "RecordFailure"; sandbox: UpSandbox; failure: CopyFailed["data"]["failure"] };

export function decide(repository: SessionRepository, command: RepositoryCommand): (Copied | CopyFailed)[] {
  switch (command.type) {
    case "RecordCopy":
      return recordCopy(repository, command);
    case "RecordFailure":
      return recordFailure(repository, command);
  }
}

/** The disk has it, whichever boot it was copied in. */
function recordCopy(
  repository: SessionRepository,
  { sandbox: { sandboxId, generation }, copy }: Extract<RepositoryCommand, { type: "RecordCopy" }>,
): Copied[] {
  if (repository.status === "none" || repository.status === "ended") return [];
  if (repository.status === "copied" && repository.generation >= generation) return [];
  if ("sandbox" in repository && repository.sandbox.generation !== generation) return [];
  return [{ type: "RepositoryCopied", data: { sandboxId, generation, ...copy } }];
}

/** A failure counts only while the sandbox that it happened in is the one that is up. */
function recordFailure(
  repository: SessionRepository,
  { sandbox, failure }: Extract<RepositoryCommand, { type: "RecordFailure" }>,
): CopyFailed[] {
  if (repository.status !== "wanted" || !isSameBoot(repository.sandbox, sandbox)) return [];
  const { sandboxId, generation } = sandbox;
  return [{ type: "RepositoryCopyFailed", data: { sandboxId, generation, failure } }];
}

export function isSameBoot(one: UpSandbox, other: UpSandbox): boolean {
  return one.sandboxId === other.sandboxId && one.generation === other.generation && one.bootId === other.bootId;
}
