import { checkRequirements } from "#services/providers/local/requirements.ts";

/** Makes a sandbox's namespaces for real, as the user that sandboxes run as. Throws a Refusal with the next step. */
export function checkSandboxes(): Promise<{ bubblewrap: string }> {
  return checkRequirements();
}
