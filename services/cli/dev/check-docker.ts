import { openEngine } from "#services/providers/docker/engine/engine.ts";
import { type EngineFacts, engineFacts } from "#services/providers/docker/engine/facts.ts";
import { dockerReadiness, type Readiness } from "#services/providers/docker/readiness.ts";

export type { EngineFacts, Readiness };
export { dockerReadiness };

/** What the engine says of itself. Throws Retryable `docker_unreachable` and Refusal `docker_forbidden`, each with the next step. */
export function factsOf(host: string): Promise<EngineFacts> {
  return engineFacts(openEngine(host));
}
