// What every provider refuses in the same words.
import { Refusal } from "#shared/errors/errors.ts";
import type { Capability, SandboxRef } from "./provider.ts";

export function unsupported(provider: string, capability: Capability): Refusal {
  return new Refusal(`${capability}_unsupported`, `The provider ${provider} has no ${capability}`, {
    next: "Nothing to do: what it cannot do is not asked of it again.",
  });
}

export function sandboxMissing({ sandboxId, generation }: SandboxRef): Refusal {
  return new Refusal("sandbox_missing", `There is no sandbox ${sandboxId} of generation ${generation}`, {
    next: "A new sandbox has to be created.",
  });
}

export function sandboxNotRunning({ sandboxId }: SandboxRef): Refusal {
  return new Refusal("sandbox_not_running", `Sandbox ${sandboxId} is stopped`, { next: "It has to be restarted." });
}

export function generationOld({ sandboxId, generation }: SandboxRef, found: number): Refusal {
  return new Refusal("generation_old", `Sandbox ${sandboxId} is of generation ${found}; ${generation} is over`, {
    next: "Nothing to do: a newer sandbox took its place.",
  });
}
