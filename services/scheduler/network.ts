// What a sandbox may reach: asked by the egress service, which hears of a sandbox by its pass only.
import type { NetworkQuestion } from "#schemas/network/question.ts";
import type { SandboxNetwork } from "#schemas/network/sandbox-network.ts";
import { ownerOf } from "./pool/owner.ts";
import type { SessionSandbox } from "./sandbox/sandbox.ts";
import type { Sessions } from "./sessions.ts";

/** Undefined for a sandbox that nobody asked for, that is of another generation, or that is gone. */
export async function networkOfSandbox(
  sessions: Pick<Sessions, "now">,
  { sandboxId, generation }: NetworkQuestion,
): Promise<SandboxNetwork | undefined> {
  const state = await sessions.now(await ownerOf(sessions, sandboxId));
  return isAlive(state, generation) ? state.network : undefined;
}

function isAlive({ sandbox }: SessionSandbox, generation: number): boolean {
  switch (sandbox.status) {
    case "absent":
    case "missing":
    case "deleting":
    case "undeletable":
    case "destroyed":
      return false;
    default:
      return sandbox.generation === generation;
  }
}
