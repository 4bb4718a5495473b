import { closeCgroups, openCgroups } from "#services/providers/local/cgroups.ts";
import { describeIsolation } from "#services/providers/local/isolation.ts";
import { checkRequirements } from "#services/providers/local/requirements.ts";
import type { Isolation } from "#services/providers/provider.ts";

export type { Isolation };

/** Makes a sandbox's namespaces for real, as the user that sandboxes run as. Throws a Refusal with the next step. */
export function checkSandboxes(): Promise<{ bubblewrap: string }> {
  return checkRequirements();
}

/** What a local sandbox isolates on this very machine, and what it does not, in words. */
export async function isolationHere(): Promise<Isolation> {
  const cgroups = await openCgroups(`pistis-doctor-${process.pid}`);
  try {
    return describeIsolation(cgroups);
  } finally {
    await closeCgroups(cgroups);
  }
}
